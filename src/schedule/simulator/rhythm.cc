#include "schedule/simulator/rhythm.h"

#include <algorithm>
#include <cstdlib>

namespace tutti {
namespace {

/// Rounds repeat if the last two periods, or as many rounds as this where that is more, agree.
constexpr std::size_t kRounds = 3;
/// Rounds are never quite equal: ranks drift apart a little, and messages that share a wire round their times.
constexpr Time kPart = 2048;
constexpr Time kPartOfSharedCores = 8192;

}  // namespace

void Rhythm::start(std::size_t strands, std::size_t rounds, bool share_cores) {
  strands_ = strands;
  part_ = share_cores ? kPartOfSharedCores : kPart;
  repeats_ = false;
  pace_ = 0;
  ends_.resize(strands * rounds);
  done_.assign(rounds, 0);
}

bool Rhythm::finish(std::size_t strand, std::size_t round, Time now) {
  ends_[round * strands_ + strand] = now;
  if (++done_[round] < strands_) return false;
  for (std::size_t period = 1; period <= kLongestPeriod && !repeats_; ++period) repeats_ = repeats_with(period, round);
  return true;
}

bool Rhythm::repeats_with(std::size_t period, std::size_t round) {
  const std::size_t compared = std::max(2 * period, kRounds);
  if (round < compared) return false;
  const Time time = since(0, round, period);
  for (std::size_t back = 0; back + period <= compared; ++back)
    for (std::size_t strand = 0; strand < strands_; ++strand)
      if (std::abs(since(strand, round - back, period) - time) > time / part_) return false;
  pace_ = time / static_cast<Time>(period);
  return true;
}

}  // namespace tutti

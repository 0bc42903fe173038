#include "collectives/steps_together.h"

#include <algorithm>
#include <span>

namespace tutti {

namespace {

/// No rank of a device has more peers.
constexpr std::size_t kMostTogether = 16;

/// Whether it is one of those steps that run together: it only sends one chunk, or only stores one that it receives.
bool joins_others(const Step& step) {
  if (step.span.count != 1) return false;
  if (step.verbs == kSend) return step.send_to == PeerSet::kOne;
  return step.verbs == (kRecv | kStore) && step.recv_from == PeerSet::kOne;
}

bool have_nothing_in_common(const Step& one, const Step& other) {
  if (one.verbs == kSend) return one.send_peer != other.send_peer;
  const bool one_place = one.dst_buffer == other.dst_buffer && one.dst_chunk == other.dst_chunk;
  return one.recv_peer != other.recv_peer && !one_place;
}

void mark_lane(std::span<Step> lane) {
  for (std::size_t begin = 0; begin < lane.size();) {
    std::size_t end = begin + 1;
    const auto fits = [&](const Step& step) {
      return joins_others(step) && step.verbs == lane[begin].verbs && step.flags == lane[begin].flags &&
             std::all_of(lane.begin() + static_cast<std::ptrdiff_t>(begin),
                         lane.begin() + static_cast<std::ptrdiff_t>(end),
                         [&](const Step& one) { return have_nothing_in_common(one, step); });
    };
    if (joins_others(lane[begin]))
      while (end < lane.size() && end - begin < kMostTogether && fits(lane[end])) ++end;
    lane[begin].together = static_cast<std::uint8_t>(end - begin - 1);
    begin = end;
  }
}

}  // namespace

void mark_what_runs_together(Schedule* schedule) {
  const std::span<Step> steps(schedule->steps);
  for (std::size_t begin = 0; begin < steps.size(); begin += schedule->steps_per_lane)
    mark_lane(steps.subspan(begin, schedule->steps_per_lane));
}

}  // namespace tutti

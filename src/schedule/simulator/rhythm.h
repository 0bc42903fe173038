// Finds out in a simulation when the calls of a loop, or the tiles of a large call, have come to repeat.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/costs.h"

namespace tutti {

/// A round is a call of a loop, or a tile of a call. Rounds repeat with period k if every lane of every rank finishes
/// each of them as long after the k-th before as all others do. A sender that runs ahead, as far as its credits reach,
/// keeps them from repeating until it has to wait.
class Rhythm {
 public:
  static constexpr std::size_t kLongestPeriod = 8;

  /// `strands`: lanes of all ranks that take part. Rounds of ranks that share cores must be equal more exactly: if they
  /// drift apart by a thousandth of a round, the order in which they get the cores may change many rounds later.
  void start(std::size_t strands, std::size_t rounds, bool share_cores);

  /// A strand has finished a round. Each finishes them in order. Whether with it all have finished that round.
  bool finish(std::size_t strand, std::size_t round, Time now);

  /// Whether the rounds that all have finished have come to repeat.
  bool repeats() const { return repeats_; }
  /// The time from one round to the next, if rounds repeat.
  Time pace() const { return pace_; }

 private:
  bool repeats_with(std::size_t period, std::size_t round);
  Time since(std::size_t strand, std::size_t round, std::size_t period) const {
    return ends_[round * strands_ + strand] - ends_[(round - period) * strands_ + strand];
  }

  std::size_t strands_ = 0;
  Time part_ = 1;  ///< times are equal if they differ by at most this part of them
  bool repeats_ = false;
  Time pace_ = 0;
  std::vector<Time> ends_;           ///< by round, then by strand
  std::vector<std::uint32_t> done_;  ///< by round: strands that have finished it
};

}  // namespace tutti

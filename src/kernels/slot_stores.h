// How the slots of one link are filled: through the caches or past them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/clock.h"

namespace tutti {

/// A store through the caches to a line that the reader still holds waits until the reader's cache has given it up.
/// That is nothing where the two cores share a cache, and may be ten times the copy where they do not; a store past the
/// caches does not wait, but the data then come from memory. Where threads run changes, so now and then two parts of a
/// slot are filled one way each and timed (docs/design/kernels.md, "Copies"). Not thread-safe.
/// `TimeSource` is a clock of the standard library's kind, so that tests can say what time it is.
template <class TimeSource>
class TimedStores {
 public:
  static constexpr std::size_t kFrom = 8192;  ///< bytes; smaller slots are filled through the caches
  /// Bytes that each way gets where they are compared, if the slot has as many: a copy past the caches
  /// is over only when all of its stores are through, which is most of the time of a short one.
  static constexpr std::size_t kPart = 16384;

  /// Fills a slot of `bytes` bytes by calls of fill_part(first byte, bytes, past the caches), which lie side by side.
  template <class FillPart>
  void fill(std::size_t bytes, const FillPart& fill_part) {
    if (bytes < kFrom) return fill_part(0, bytes, false);
    const bool compares = fills_ % kPeriod == 0 || fills_ < kFirst || doubts_;
    ++fills_;
    const std::size_t begin = compares ? compare(std::min(kPart, bytes / 2 / kLine * kLine), fill_part) : 0;
    if (begin != bytes) fill_part(begin, bytes - begin, past_caches());
  }
  bool past_caches() const { return votes_ > 0; }

 private:
  using Time = typename TimeSource::time_point;
  using Duration = typename TimeSource::duration;
  static constexpr std::size_t kLine = 64;  // elements end there
  static constexpr std::uint32_t kPeriod = 32;
  static constexpr std::uint32_t kFirst = 3;  ///< of the first fills each compares: page faults must not decide
  static constexpr int kMostVotes = 2;        // an interrupt in the middle of a part must not decide

  template <class FillPart>
  std::size_t compare(std::size_t part, const FillPart& fill_part) {
    past_first_ = !past_first_;  // the first part also waits for the beginning of its source
    const Time begin = when_stored();
    fill_part(0, part, past_first_);
    const Time middle = when_stored();
    fill_part(part, part, !past_first_);
    const Time end = when_stored();
    vote(past_first_ ? end - middle : middle - begin, past_first_ ? middle - begin : end - middle);
    return 2 * part;
  }

  /// The time, read after all stores have left the store buffer, which may hold a whole part.
  static Time when_stored() {
    std::atomic<int> word{0};
    word.exchange(1, std::memory_order_seq_cst);  // pairs with nothing: it is here for its waiting
    asm volatile("" : : "r"(&word) : "memory");   // so that the compiler does not leave it out
    return TimeSource::now();
  }

  // A quarter more: the reader finds data in a cache sooner than in memory.
  void vote(Duration through, Duration past) {
    const bool past_is_better = 4 * through > 5 * past;
    doubts_ = past_is_better != past_caches();
    if (past_is_better) {
      if (votes_ < kMostVotes) ++votes_;
    } else if (votes_ > -kMostVotes) {
      --votes_;
    }
  }

  std::uint32_t fills_ = 0;
  std::int8_t votes_ = -1;
  bool past_first_ = false;
  bool doubts_ = false;  ///< the last comparison spoke for the other way, so the next fill compares again
};

using SlotStores = TimedStores<Clock>;

}  // namespace tutti

// One pass over memory for one format and operation: the loops around arithmetic.h.
//
// There is no scalar tail. The last vector of a buffer is computed first, kept in a register and stored last, over
// lanes that the loop stored already with the same values; the first vector likewise, so that the loop can start where
// the destination is aligned. Computing both before the loop makes this right in place. Buffers shorter than a vector
// are covered by two overlapping halves, quarters and so on down to one lane.
#pragma once

#include "kernels/arithmetic.h"
#include "kernels/kernels.h"
#include "kernels/stream_store.h"
#include "kernels/tree_reduction.h"

namespace tutti::TUTTI_ISA {

template <class Format, class Op>
class Reduction {
 public:
  static void run(const ReduceArgs& args) {
    if (args.source_count == 2) return args.count < kLanes ? run_short<2>(args) : run_long<2>(args);
    if constexpr (kOrderMatters) {
      // Up to three sources both orders are the same.
      if (args.order == ReduceOrder::kTree && args.source_count > 3) return TreeReduction<Format, Op>::run(args);
    }
    return args.count < kLanes ? run_short<0>(args) : run_long<0>(args);
  }

 private:
  using Storage = typename Format::Storage;
  using Lane = typename Format::Lane;
  static constexpr bool kOrderMatters =
      std::is_floating_point_v<Lane> && (std::is_same_v<Op, Add> || std::is_same_v<Op, Multiply>);
  static constexpr std::size_t kLanes = kVectorBytes / sizeof(Lane);
  static constexpr std::size_t kUnroll = 4;
  static constexpr std::size_t kBlock = kUnroll * kLanes;
  template <int kCount>
  using Wide = Vec<Lane, kCount>;
  template <int kCount>
  using Stored = Vec<Storage, kCount>;

  TUTTI_INLINE explicit Reduction(const ReduceArgs& args)
      : sources_(args.sources),
        source_count_(args.source_count),
        destination_(args.destination),
        second_(args.second),
        count_(args.count),
        divisor_(args.divisor),
        stream_(args.stream),
        first_(args.sources[0]),
        next_(args.source_count > 1 ? args.sources[1] : nullptr) {}

  template <int kCount>
  TUTTI_INLINE static Wide<kCount> load(const void* source, std::size_t at) {
    return load_lanes<Format, kCount>(source, at);
  }

  template <int kCount>
  TUTTI_INLINE Stored<kCount> finish(Wide<kCount> lanes) const {
    return finish_lanes<Format, kCount>(lanes, divisor_);
  }

  /// The result's lanes from `at` on. kSources: 2, or 0 for any number.
  template <int kSources, int kCount>
  TUTTI_INLINE Stored<kCount> value(std::size_t at) const {
    Wide<kCount> lanes = load<kCount>(first_, at);
    if constexpr (kSources == 2) {
      lanes = Op::apply(lanes, load<kCount>(next_, at));
    } else {
      for (int k = 1; k < source_count_; ++k) lanes = Op::apply(lanes, load<kCount>(sources_[k], at));
    }
    return finish<kCount>(lanes);
  }

  template <int kCount>
  TUTTI_INLINE void store(std::size_t at, Stored<kCount> lanes) const {
    store_to(static_cast<Storage*>(destination_) + at, lanes);
    if (second_ != nullptr) store_to(static_cast<Storage*>(second_) + at, lanes);
  }

  // Out of line: what the long pass keeps on the stack would cost the short one more than its work.
  template <int kSources>
  __attribute__((noinline)) static void run_short(const ReduceArgs& args) {
    const Reduction pass(args);
    pass.template cover<kSources, kLanes / 2>();
  }

  /// Two vectors that overlap, as wide as the buffer allows but at most kCount lanes.
  template <int kSources, int kCount>
  TUTTI_INLINE void cover() const {
    if constexpr (kCount > 0) {
      if (count_ < kCount) return cover<kSources, kCount / 2>();
      const std::size_t last = count_ - kCount;
      const auto head = value<kSources, kCount>(0);
      const auto tail = value<kSources, kCount>(last);
      store<kCount>(0, head);
      store<kCount>(last, tail);
    }
  }

  template <int kSources>
  TUTTI_INLINE void block(std::size_t at, bool stream) const {
    Wide<kLanes> lanes[kUnroll];
    for (std::size_t u = 0; u < kUnroll; ++u) lanes[u] = load<kLanes>(first_, at + u * kLanes);
    for (int k = 1; k < (kSources == 2 ? 2 : source_count_); ++k) {
      const void* source = kSources == 2 ? next_ : sources_[k];
      for (std::size_t u = 0; u < kUnroll; ++u) {
        lanes[u] = Op::apply(lanes[u], load<kLanes>(source, at + u * kLanes));
      }
    }
    Storage* destination = static_cast<Storage*>(destination_) + at;
    Stored<kLanes> results[kUnroll];
    for (std::size_t u = 0; u < kUnroll; ++u) results[u] = finish<kLanes>(lanes[u]);
    if (stream) {
      for (std::size_t u = 0; u < kUnroll; ++u) stream_to(destination + u * kLanes, results[u]);
    } else {
      for (std::size_t u = 0; u < kUnroll; ++u) store_to(destination + u * kLanes, results[u]);
    }
    if (second_ == nullptr) return;
    Storage* second = static_cast<Storage*>(second_) + at;
    for (std::size_t u = 0; u < kUnroll; ++u) store_to(second + u * kLanes, results[u]);
  }

  template <int kSources>
  __attribute__((noinline)) static void run_long(const ReduceArgs& args) {
    const Reduction pass(args);
    pass.template sweep<kSources>();
  }

  template <int kSources>
  TUTTI_INLINE void sweep() const {
    const std::size_t last = count_ - kLanes;
    const Stored<kLanes> tail = value<kSources, kLanes>(last);
    // Aligning short buffers costs more than it saves.
    const std::size_t lead = count_ >= 2 * kBlock ? lanes_to_alignment() : kLanes;
    const bool stream = stream_ && lead < kLanes;
    std::size_t at = lead < kLanes ? lead : 0;
    Stored<kLanes> head = {};
    if (at != 0) head = value<kSources, kLanes>(0);
    for (; at + kBlock <= count_; at += kBlock) block<kSources>(at, stream);
    if (stream) stream_fence();
    for (; at + kLanes <= count_; at += kLanes) store<kLanes>(at, value<kSources, kLanes>(at));
    if (lead != 0 && lead < kLanes) store<kLanes>(0, head);
    store<kLanes>(last, tail);
  }

  /// How many lanes precede the destination's first aligned vector; kLanes or more: it has none.
  TUTTI_INLINE std::size_t lanes_to_alignment() const {
    const std::size_t beyond = reinterpret_cast<std::uintptr_t>(destination_) % sizeof(Stored<kLanes>);
    if (beyond % sizeof(Storage) != 0) return kLanes;
    return beyond == 0 ? 0 : (sizeof(Stored<kLanes>) - beyond) / sizeof(Storage);
  }

  // Field by field, as the caller has just stored them: a copy of the whole would be read in larger pieces, which must
  // wait until those stores have left the store buffer.
  const void* const* const sources_;
  const int source_count_;
  void* const destination_;
  void* const second_;
  const std::size_t count_;
  const std::uint32_t divisor_;
  const bool stream_;
  const void* first_;
  const void* next_;
};

}  // namespace tutti::TUTTI_ISA

// A reduction in the order of a binary tree over the sources: tree(lo, hi) = tree(lo, mid) op tree(mid, hi), where mid
// is lo plus the largest power of two below hi - lo. The rounding errors of its sums grow with the logarithm of the
// number of sources (Higham, "The accuracy of floating point summation", 1993), and parts of the tree can be computed
// elsewhere.
//
// Groups of kLeaves sources are combined in registers. A stack holds the results of whole subtrees, the larger below,
// as the bits of a binary counter hold the number of groups so far: two of equal size are merged at once. What is left
// at the end is folded from the right.
#pragma once

#include "kernels/arithmetic.h"
#include "kernels/kernels.h"
#include "kernels/stream_store.h"

namespace tutti::TUTTI_ISA {

template <class Format, class Op>
class TreeReduction {
 public:
  // Out of line, as the passes of reduction.h.
  __attribute__((noinline)) static void run(const ReduceArgs& args) {
    const TreeReduction pass(args);
    if (args.count < kLanes) return pass.template cover<kLanes / 2>();
    if (args.source_count == 4) return pass.template sweep<4>();
    if (args.source_count == 8) return pass.template sweep<8>();
    pass.template sweep<0>();
  }

 private:
  using Storage = typename Format::Storage;
  using Lane = typename Format::Lane;
  static constexpr std::size_t kLanes = kVectorBytes / sizeof(Lane);
  /// Subtrees on the stack: one for each bit of a number of sources.
  static constexpr int kDepth = 32;
  template <int kCount>
  using Wide = Vec<Lane, kCount>;
  template <int kCount>
  using Stored = Vec<Storage, kCount>;

  TUTTI_INLINE explicit TreeReduction(const ReduceArgs& args) : args_(args) {}

  /// The sources from k on, kSize of them.
  template <int kCount, int kSize>
  TUTTI_INLINE Wide<kCount> group(int k, std::size_t at) const {
    if constexpr (kSize == 1) {
      return load_lanes<Format, kCount>(args_.sources[k], at);
    } else {
      const auto left = group<kCount, kSize / 2>(k, at);
      return Op::apply(left, group<kCount, kSize / 2>(k + kSize / 2, at));
    }
  }

  /// The sources from k on, `size` of them: at least one, fewer than 2 * kSize.
  template <int kCount, int kSize>
  TUTTI_INLINE Wide<kCount> part_of_group(int k, int size, std::size_t at) const {
    if constexpr (kSize == 1) {
      return group<kCount, 1>(k, at);
    } else {
      if (size < kSize) return part_of_group<kCount, kSize / 2>(k, size, at);
      const auto left = group<kCount, kSize>(k, at);
      if (size == kSize) return left;
      return Op::apply(left, part_of_group<kCount, kSize / 2>(k + kSize, size - kSize, at));
    }
  }

  template <int kCount, int kLeaves>
  TUTTI_INLINE Stored<kCount> value(std::size_t at) const {
    Wide<kCount> subtrees[kDepth];
    int top = 0;
    const int groups = args_.source_count / kLeaves;
    for (int g = 0; g < groups; ++g) {
      Wide<kCount> lanes = group<kCount, kLeaves>(g * kLeaves, at);
      for (int merges = g; merges % 2 == 1; merges /= 2) lanes = Op::apply(subtrees[--top], lanes);
      subtrees[top++] = lanes;
    }
    const int rest = args_.source_count % kLeaves;
    Wide<kCount> lanes = rest == 0 ? subtrees[--top] : part_of_group<kCount, kLeaves / 2>(groups * kLeaves, rest, at);
    while (top > 0) lanes = Op::apply(subtrees[--top], lanes);
    return finish_lanes<Format, kCount>(lanes, args_.divisor);
  }

  template <int kSources>
  TUTTI_INLINE Stored<kLanes> fixed_value(std::size_t at) const {
    if constexpr (kSources == 0) {
      return value<kLanes, 8>(at);
    } else {
      return finish_lanes<Format, kLanes>(group<kLanes, kSources>(0, at), args_.divisor);
    }
  }

  template <int kCount>
  TUTTI_INLINE void store(std::size_t at, Stored<kCount> lanes) const {
    store_to(static_cast<Storage*>(args_.destination) + at, lanes);
    if (args_.second != nullptr) store_to(static_cast<Storage*>(args_.second) + at, lanes);
  }

  template <int kCount>
  TUTTI_INLINE void cover() const {
    if constexpr (kCount > 0) {
      if (args_.count < kCount) return cover<kCount / 2>();
      const std::size_t last = args_.count - kCount;
      const auto head = value<kCount, 2>(0);
      const auto tail = value<kCount, 2>(last);
      store<kCount>(0, head);
      store<kCount>(last, tail);
    }
  }

  /// The last vector first, for in place, and stored last; in one loop, for the code of value() is long.
  /// kSources: 4 or 8, which need no stack, or 0 for any number.
  template <int kSources>
  TUTTI_INLINE void sweep() const {
    Storage* const destination = static_cast<Storage*>(args_.destination);
    const bool stream = args_.stream && reinterpret_cast<std::uintptr_t>(destination) % sizeof(Stored<kLanes>) == 0;
    const std::size_t last = args_.count - kLanes;
    Stored<kLanes> tail = {};
    std::size_t at = last;
    for (bool first = true;; first = false) {
      const Stored<kLanes> lanes = fixed_value<kSources>(at);
      if (first) {
        tail = lanes;
        at = 0;
      } else {
        if (stream) {
          stream_to(destination + at, lanes);
          if (args_.second != nullptr) store_to(static_cast<Storage*>(args_.second) + at, lanes);
        } else {
          store<kLanes>(at, lanes);
        }
        at += kLanes;
      }
      if (at >= last) break;
    }
    if (stream) stream_fence();
    store<kLanes>(last, tail);
  }

  const ReduceArgs args_;
};

}  // namespace tutti::TUTTI_ISA

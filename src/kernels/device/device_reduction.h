// Reductions and copies by a group of threads that share the work: a warp, a thread block or a whole grid on a GPU. It
// also compiles for the host, where the threads are called one after the other or are real ones.
//
// The buffers are covered by 16-byte packs, aligned for the first destination: consecutive threads take consecutive
// packs, each several at a time, so that it has several loads in flight. The elements before the first pack and
// after the last are taken one by one. Every element is read and written by one thread, all sources before any
// destination, so that a destination may be one of the sources. Nothing waits: the caller orders one pass after
// another.
//
// Results are those of the processor's kernels (kernels.h) bit for bit.
#pragma once

#include "core/units.h"
#include "kernels/device/device_lanes.h"
#include "kernels/device/device_pack.h"
#include "kernels/reduction_list.h"

namespace tutti::device {

/// destination[i] = source_0[i] op source_1[i] op ... for every destination. Buffers need not be aligned, but those
/// that are congruent modulo 16 bytes are fastest: others are shifted. A destination may be the same pointer as a
/// source; any other overlap is undefined. The lists are read by all threads, the buffers must be memory that plain
/// loads and stores reach.
struct ReduceArgs {
  const void* const* sources = nullptr;
  int source_count = 0;  ///< 1 or more
  void* const* destinations = nullptr;
  int destination_count = 0;
  std::size_t count = 0;      ///< elements of the format
  std::uint32_t divisor = 1;  ///< for the operation Mean at the complete step: the number of ranks; else 1
  /// In the order kTree of kernels.h, where it is another than kLeft; at most kMostInTree sources. More than
  /// kPacksInTree of them are slow.
  bool tree = false;
};
inline constexpr int kTreeLevels = 5;
inline constexpr int kMostInTree = (1 << kTreeLevels) - 1;
/// A tree of at most so many sources goes by packs.
inline constexpr int kPacksInTree = 8;

/// How the buffers of a reduction split into elements and packs.
struct Split {
  std::size_t head = 0;   ///< elements before the first pack
  std::size_t packs = 0;  ///< 0: all elements are taken one by one
  /// The packs of some buffers are not aligned. Then the packs before and after these are inside, too.
  bool shifted = false;
};

TUTTI_HD inline bool are_congruent(void* const* destinations, int count) {
  std::uintptr_t differ = 0;  // the bits of the address in which any differs from the first
  TUTTI_NO_UNROLL
  for (int d = 1; d < count; ++d) {
    differ |= reinterpret_cast<std::uintptr_t>(destinations[d]) ^ reinterpret_cast<std::uintptr_t>(destinations[0]);
  }
  return differ % sizeof(Pack) == 0;
}

template <class Storage>
TUTTI_HD inline Split split_of(const ReduceArgs& args) {
  constexpr std::size_t kInPack = kElements<Storage>;
  const auto first = reinterpret_cast<std::uintptr_t>(args.destinations[0]);
  std::uintptr_t sources = 0;  // in which bits of the address they differ from the first destination
  TUTTI_NO_UNROLL
  for (int k = 0; k < args.source_count; ++k) sources |= reinterpret_cast<std::uintptr_t>(args.sources[k]) ^ first;
  const std::size_t to_pack = (0 - first) % sizeof(Pack);
  const std::size_t head = to_pack / sizeof(Storage);
  const Split none{args.count, 0, false};
  if (to_pack % sizeof(Storage) != 0 || args.count <= head) return none;
  const std::size_t packs = (args.count - head) / kInPack;
  const bool alike = sources % sizeof(Pack) == 0 && are_congruent(args.destinations, args.destination_count);
  if (alike) return {head, packs, false};
  return packs > 2 ? Split{head + kInPack, packs - 2, true} : none;
}

/// Whether the order of the sources shows in the result; that of integers and of extremes does not.
template <class Format, class Op>
inline constexpr bool kOrderMatters = std::is_floating_point_v<typename Format::Lane> &&
                                      (std::is_base_of_v<portable::Add, Op> || std::is_same_v<Op, portable::Multiply>);
/// Up to so many sources both orders are the same.
inline constexpr int kAlikeInBothOrders = 3;
TUTTI_HD inline bool asks_for_tree(const ReduceArgs& args) {
  return args.tree && args.source_count > kAlikeInBothOrders;
}

/// Which reductions a function takes: any, in the order that it is asked for, or all in the order kLeft, or all in that
/// of a tree. The interpreters' functions take one of the two orders, because trees need more registers.
enum class Trees : std::uint8_t { kIfAsked, kNever, kAlways };

/// One thread's part of a reduction.
template <class Format, class Op, Trees kTrees = Trees::kIfAsked>
class Reduction {
 public:
  using Storage = typename Format::Storage;
  using Lane = typename Format::Lane;

  TUTTI_HD Reduction(unsigned thread, unsigned threads, const ReduceArgs& args)
      : args_(args),
        thread_(thread),
        threads_(threads),
        divisor_(args.divisor),
        split_(goes_by_packs() ? split_of<Storage>(args) : Split{args.count, 0, false}) {}

  TUTTI_HD void run() const {
    if (in_tree()) {
      if constexpr (kHasTrees) sweep<kTree, 1>();
    } else if (split_.shifted) {
      sweep<kAnywhere, 1>();
    } else if (args_.source_count == 2) {
      sweep<kTwo, kPacks>();
    } else {
      sweep<kAny, kPacks>();
    }
    edges();
  }
  /// One source that is not changed.
  TUTTI_HD void run_copy() const {
    if (split_.shifted) {
      sweep<kAnywhere, 1>();
    } else {
      sweep<kOne, 8>();
    }
    edges();
  }

 private:
  using Lanes = PackLanes<Format>;
  /// From how many sources packs are loaded. kAnywhere: from any number, and all buffers but the first destination may
  /// be at any address. kTree: like that, in the order of a tree.
  enum Way { kOne, kTwo, kAny, kAnywhere, kTree };

  // A thread's packs of one source in flight. Formats that widen need registers for the lanes.
  static constexpr int kPacks = sizeof(Lane) > sizeof(Storage) ? 2 : 4;

  template <Way kWay, int kCount>
  TUTTI_HD void sweep() const {
    const std::size_t runs = split_.packs / (kCount * kSide);
    TUTTI_NO_UNROLL
    for (std::size_t run = thread_ / kSide; run < runs; run += threads_ / kSide) {
      combine<kWay, kCount>(run * (kCount * kSide) + thread_ % kSide);
    }
    if constexpr (kCount * kSide > 1) {
      TUTTI_NO_UNROLL
      for (std::size_t at = runs * (kCount * kSide) + thread_; at < split_.packs; at += threads_) combine<kWay, 1>(at);
    }
  }

  TUTTI_HD void edges() const {
    const std::size_t inside = split_.packs * kElements<Storage>;
    TUTTI_NO_UNROLL
    for (std::size_t i = thread_; i < args_.count - inside; i += threads_) {
      element(i < split_.head ? i : i + inside);
    }
  }

  /// kCount packs: `at`, at + kSide, ...
  template <Way kWay, int kCount>
  TUTTI_HD void combine(std::size_t at) const {
    if constexpr (kWay == kTree) {
      const Pack result[] = {tree_of_packs(at)};
      TUTTI_NO_UNROLL
      for (int d = 0; d < args_.destination_count; ++d) store<kTree>(result, d, at);
    } else {
      fold<kWay, kCount>(at);
    }
  }

  template <Way kWay, int kCount>
  TUTTI_HD void fold(std::size_t at) const {
    Pack first[kCount], next[kCount];
    load<kWay>(first, 0, at);
    // Where there is one source it is loaded twice rather than waited for: nobody hides a branch behind loads.
    if constexpr (kWay != kOne) load<kWay>(next, kWay == kTwo || args_.source_count > 1 ? 1 : 0, at);
    Lanes lanes[kCount];
    TUTTI_UNROLL
    for (int u = 0; u < kCount; ++u) lanes[u].widen(first[u]);
    if constexpr (kWay == kTwo) apply(lanes, next);
    if constexpr (kWay == kAny || kWay == kAnywhere) {
      TUTTI_NO_UNROLL
      for (int k = 1; k < args_.source_count; ++k) {
        Pack current[kCount];
        TUTTI_UNROLL
        for (int u = 0; u < kCount; ++u) current[u] = next[u];
        if (k + 1 < args_.source_count) load<kWay>(next, k + 1, at);
        apply(lanes, current);
      }
    }
    Pack results[kCount];
    TUTTI_UNROLL
    for (int u = 0; u < kCount; ++u) results[u] = finish(lanes[u]);
    TUTTI_NO_UNROLL
    for (int d = 0; d < args_.destination_count; ++d) store<kWay>(results, d, at);
  }

  template <Way kWay, int kCount>
  TUTTI_HD void load(Pack (&packs)[kCount], int source, std::size_t at) const {
    const auto* const from =
        reinterpret_cast<const unsigned char*>(static_cast<const Storage*>(args_.sources[source]) + split_.head) +
        at * sizeof(Pack);
    TUTTI_UNROLL
    for (int u = 0; u < kCount; ++u) {
      const unsigned char* const address = from + u * kSide * sizeof(Pack);
      packs[u] = kWay >= kAnywhere ? load_pack_anywhere(address) : load_pack(address);
    }
  }
  template <Way kWay, int kCount>
  TUTTI_HD void store(const Pack (&packs)[kCount], int destination, std::size_t at) const {
    auto* const to =
        reinterpret_cast<unsigned char*>(static_cast<Storage*>(args_.destinations[destination]) + split_.head) +
        at * sizeof(Pack);
    TUTTI_UNROLL
    for (int u = 0; u < kCount; ++u) {
      unsigned char* const address = to + u * kSide * sizeof(Pack);
      kWay >= kAnywhere ? store_pack_anywhere(address, packs[u]) : store_pack(address, packs[u]);
    }
  }

  template <int kCount>
  TUTTI_HD static void apply(Lanes (&lanes)[kCount], const Pack (&packs)[kCount]) {
    TUTTI_UNROLL
    for (int u = 0; u < kCount; ++u) {
      Lanes other;
      other.widen(packs[u]);
      lanes[u].template combine<Op>(other);
    }
  }

  TUTTI_HD Pack finish(Lanes& lanes) const {
    if constexpr (std::is_same_v<Op, portable::Mean>) {
      if (divisor_.value != 1) lanes.divide(divisor_);
    }
    return lanes.narrow();
  }

  static constexpr bool kHasTrees = kOrderMatters<Format, Op> && kTrees != Trees::kNever;
  TUTTI_HD bool in_tree() const { return kHasTrees && (kTrees == Trees::kAlways || asks_for_tree(args_)); }
  TUTTI_HD bool goes_by_packs() const {
    constexpr bool kNeedsSmall = kDividesByReciprocal<Format> && std::is_same_v<Op, portable::Mean>;
    if (kNeedsSmall && args_.divisor >= Divisor::kSmall) return false;
    return !in_tree() || args_.source_count <= kPacksInTree;
  }

  TUTTI_HD Lane lane_of(int source, std::size_t at) const {
    return Format::widen(load_element<Storage>(args_.sources[source], at));
  }

  /// Whole subtrees as the bits of a binary counter, as in tree_reduction.h; subtrees[i] is of 2^i sources. `load`
  /// gives what a source has, and join(left, right) puts the two together in `right`.
  template <int kLevels, class Part, class Load, class Join>
  TUTTI_HD Part tree_of(const Load& load, const Join& join) const {
    Part subtrees[kLevels], part{};
    TUTTI_NO_UNROLL
    for (int k = 0; k < args_.source_count; ++k) {
      part = load(k);
      bool carries = true;
      TUTTI_UNROLL
      for (int level = 0; level < kLevels; ++level) {
        if (!carries) continue;
        carries = (k >> level & 1) != 0;
        if (carries) {
          join(subtrees[level], &part);
        } else {
          subtrees[level] = part;
        }
      }
    }
    bool begun = false;
    TUTTI_UNROLL
    for (int level = 0; level < kLevels; ++level) {
      if ((args_.source_count >> level & 1) == 0) continue;
      if (begun) join(subtrees[level], &part);
      if (!begun) part = subtrees[level];
      begun = true;
    }
    return part;
  }

  TUTTI_HD Lane tree_of_lanes(std::size_t at) const {
    return tree_of<kTreeLevels, Lane>([&](int k) { return lane_of(k, at); },
                                      [](Lane left, Lane* right) { *right = Op::apply(left, *right); });
  }

  /// A pack of the result, whose parts have one tree after the other.
  TUTTI_HD Pack tree_of_packs(std::size_t at) const {
    using Part = PackPart<Format>;
    constexpr int kLevels = 3;
    static_assert(kPacksInTree == 1 << kLevels);  // the tree of all is what is left
    Pack result{};
    TUTTI_NO_UNROLL
    for (int p = 0; p < Part::kParts; ++p) {
      Part part = tree_of<kLevels, Part>(
          [&](int k) {
            Pack pack[1];
            load<kTree>(pack, k, at);
            Part loaded;
            loaded.widen(pack[0], p);
            return loaded;
          },
          [](const Part& left, Part* right) {
            Part joined = left;
            joined.template combine<Op>(*right);
            *right = joined;
          });
      if constexpr (std::is_same_v<Op, portable::Mean>) {
        if (divisor_.value != 1) part.divide(divisor_);
      }
      part.narrow(&result, p);
    }
    return result;
  }

  TUTTI_HD Lane fold_of(std::size_t at) const {
    Lane lane = lane_of(0, at);
    TUTTI_NO_UNROLL
    for (int k = 1; k < args_.source_count; ++k) lane = Op::apply(lane, lane_of(k, at));
    return lane;
  }

  TUTTI_HD Lane lane_of_result(std::size_t at) const {
    if constexpr (kHasTrees) {
      if (in_tree()) return tree_of_lanes(at);
    }
    return fold_of(at);
  }

  TUTTI_HD void element(std::size_t at) const {
    Lane lane = lane_of_result(at);
    if constexpr (std::is_same_v<Op, portable::Mean>) {
      if (args_.divisor != 1) lane = portable::divide_lane<Format>(lane, args_.divisor);
    }
    const Storage result = Format::narrow(lane);
    TUTTI_NO_UNROLL
    for (int d = 0; d < args_.destination_count; ++d) store_element(args_.destinations[d], at, result);
  }

  const ReduceArgs& args_;
  const unsigned thread_;
  const unsigned threads_;
  const Divisor divisor_;
  const Split split_;
};

/// The part of `thread`, of `threads` that all call this with the same arguments. On a device `threads` is a multiple
/// of 32 and a warp's threads are numbered in a row. Format and Op: a pair of list_reductions(); no barrier inside.
template <class Format, class Op, Trees kTrees = Trees::kIfAsked>
TUTTI_HD inline void reduce(unsigned thread, unsigned threads, const ReduceArgs& args) {
  Reduction<Format, Op, kTrees>(thread, threads, args).run();
}

/// Copies `bytes` from the source to every destination; as reduce(). Destinations that are not congruent modulo 16
/// bytes are written one after the other, each by whole packs, but for the source itself, which other threads may still
/// read.
TUTTI_HD inline void copy(unsigned thread, unsigned threads, const void* source, void* const* destinations,
                          int destination_count, Bytes bytes) {
  const void* const sources[] = {source};
  const int together = are_congruent(destinations, destination_count) ? destination_count : 1;
  TUTTI_NO_UNROLL
  for (int d = 0; d < destination_count; d += together) {
    if (together < destination_count && destinations[d] == source) continue;
    const ReduceArgs args{sources, 1, destinations + d, together, bytes.value, 1};
    Reduction<portable::Plain<std::uint8_t>, portable::Or>(thread, threads, args).run_copy();
  }
}

}  // namespace tutti::device

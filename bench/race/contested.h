// The collectives that are raced: which blocks they take and give, and what comes out. float32, sums.
#pragma once

#include <cstddef>

namespace tutti::race {

enum class Contested {
  kAllReduce,
  kAllGather,
  kBroadcast,
  kReduce,
  kReduceScatter,
  kAllToAll,
  kGather,
  kScatter,
  kBarrier,
};
inline constexpr int kContestedCount = 9;
inline constexpr const char* kContestedNames[] = {"all_reduce", "all_gather", "broadcast", "reduce", "reduce_scatter",
                                                  "all_to_all", "gather",     "scatter",   "barrier"};

bool is_split(Contested what);   ///< the input has a block for each rank
bool is_joined(Contested what);  ///< the output has one of each rank
bool is_rooted(Contested what);
bool reduces(Contested what);
/// Whether only the root gets the result.
bool is_for_root(Contested what);

/// What a rank has at a place of its input: small integers, whose sums are exact and known.
float input(int rank, std::size_t at);
/// What rank `rank` of `ranks` has at a place of its output when one rank has `block` elements for one other.
float expected(Contested what, int rank, int ranks, std::size_t block, std::size_t at, int root);

/// The work that each rank would have if it had all data. Where there is a root, every rank does what the root has to.
/// A reduction reads two arrays and writes one; other collectives write the output from as much input, `times` blocks
/// of `count`.
struct Floor {
  const float* send;
  const float* other;
  float* recv;
};
void run_floor(Contested what, const Floor& floor, std::size_t count, std::size_t times);

}  // namespace tutti::race

// Covers schedule/drawing.cc.
// Drawings, compared with texts that a person has read. On a difference the test prints the new text.
#include "schedule/drawing.h"

#include <gtest/gtest.h>

#include <string>

#include "collectives/choice/catalogue.h"
#include "schedule/topologies.h"

namespace tutti {
namespace {

constexpr std::int32_t kRanks[] = {1, 2, 3, 4, 7, 8};

/// Ranks 0, 1 and the last, for each n: first, inner and last ranks are where algorithms differ.
std::string draw(Collective collective, const char* name) {
  const Algorithm& algorithm = *find_algorithm(collective, name);
  std::string text;
  for (const std::int32_t n : kRanks) {
    for (std::int32_t rank = 0; rank < n; rank += rank == 0 || n < 4 ? 1 : n - 2) {
      text += to_text(build_schedule(algorithm, Shape{n, rank, is_rooted(collective) ? n / 2 : 0, 1}));
    }
  }
  return text;
}

TEST(Drawing, RingAllReduce) {
  const char* const golden =
#include "schedule/golden/all_reduce_ring.inc"
      ;
  EXPECT_EQ(draw(Collective::kAllReduce, "ring"), golden);
}

TEST(Drawing, TwoShotAllReduce) {
  const char* const golden =
#include "schedule/golden/all_reduce_all_pairs_two_shot.inc"
      ;
  EXPECT_EQ(draw(Collective::kAllReduce, "all_pairs_two_shot"), golden);
}

TEST(Drawing, RecursiveDoublingAllReduce) {
  const char* const golden =
#include "schedule/golden/all_reduce_recursive_doubling.inc"
      ;
  EXPECT_EQ(draw(Collective::kAllReduce, "recursive_doubling"), golden);
}

TEST(Drawing, TreeReduce) {
  const char* const golden =
#include "schedule/golden/reduce_tree.inc"
      ;
  EXPECT_EQ(draw(Collective::kReduce, "tree"), golden);
}

TEST(Drawing, DisseminationBarrier) {
  const char* const golden =
#include "schedule/golden/barrier_dissemination.inc"
      ;
  EXPECT_EQ(draw(Collective::kBarrier, "dissemination"), golden);
}

TEST(Drawing, GatherAndScatter) {
  const char* const golden =
#include "schedule/golden/gather_scatter_all_pairs.inc"
      ;
  std::string text;  // every rank: the root is an inner one
  for (const Collective collective : {Collective::kGather, Collective::kScatter}) {
    for (std::int32_t rank = 0; rank < 4; ++rank) {
      text += to_text(build_schedule(*find_algorithm(collective, "all_pairs"), Shape{4, rank, 2, 1}));
    }
  }
  EXPECT_EQ(text, golden);
}

TEST(Drawing, AllToAll) {
  const char* const golden =
#include "schedule/golden/all_to_all_all_pairs.inc"
      ;
  EXPECT_EQ(draw(Collective::kAllToAll, "all_pairs"), golden);
}

TEST(Drawing, PairwiseAllToAll) {
  const char* const golden =
#include "schedule/golden/all_to_all_pairwise.inc"
      ;
  EXPECT_EQ(draw(Collective::kAllToAll, "pairwise"), golden);
}

/// Two hosts of two and three ranks, dealt out: each has two drivers, and rank 4 is none.
TEST(Drawing, Hierarchy) {
  const char* const golden =
#include "schedule/golden/hierarchical.inc"
      ;
  const Topology topology(HostList{0, 1, 0, 1, 1});
  std::string text;
  for (const Collective collective : {Collective::kAllReduce, Collective::kBarrier}) {
    for (std::int32_t rank = 0; rank < 5; ++rank) {
      text +=
          to_text(build_schedule(*find_algorithm(collective, "hierarchical"), Shape{5, rank, 0, 1, &topology.map()}));
    }
  }
  EXPECT_EQ(text, golden);
}

/// Messages of several chunks: a host and a guest, blocks around the end, every second one, runs, and downwards.
TEST(Drawing, SeveralChunks) {
  const char* const golden =
#include "schedule/golden/several_chunks.inc"
      ;
  const auto draw_one = [](Collective collective, const char* name, std::int32_t n, std::int32_t rank) {
    return to_text(build_schedule(*find_algorithm(collective, name), Shape{n, rank, 0, 1}));
  };
  EXPECT_EQ(draw_one(Collective::kAllReduce, "halving_doubling", 5, 0) +
                draw_one(Collective::kAllReduce, "halving_doubling", 5, 1) +
                draw_one(Collective::kAllGather, "bruck", 6, 1) + draw_one(Collective::kAllToAll, "bruck", 6, 1) +
                draw_one(Collective::kReduceScatter, "recursive_halving", 11, 9) +
                draw_one(Collective::kReduceScatter, "pat", 7, 2) + draw_one(Collective::kAllGather, "pat", 7, 2),
            golden);
}

TEST(Drawing, SeveralLanes) {
  const Algorithm& ring = *find_algorithm(Collective::kAllGather, "ring");
  EXPECT_EQ(to_text(build_schedule(ring, Shape{3, 1, 0, 2})),
            "all_gather ring: rank 1 of 3; parts 2, input 2, output 6, scratch 0\n"
            " lane 0\n"
            "   0  chunk 2: take input[0], store output[2], send to 2\n"
            "   1  chunk 0: recv from 0, store output[0], send to 2\n"
            "   2  chunk 4: recv from 0, store output[4]\n"
            " lane 1\n"
            "   0  chunk 3: take input[1], store output[3], send to 0\n"
            "   1  chunk 5: recv from 2, store output[5], send to 0\n"
            "   2  chunk 1: recv from 2, store output[1]\n");
}

TEST(Drawing, AStepThatDoesNothing) { EXPECT_EQ(to_text(Step{}), "chunk 0: nothing"); }

}  // namespace
}  // namespace tutti

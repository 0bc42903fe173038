// The catalogue and the choice.
#include "collectives/choice.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "collectives/catalogue.h"
#include "schedule/bind.h"

namespace tutti {
namespace {

constexpr Collective kOffered[] = {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
                                   Collective::kBroadcast, Collective::kReduce,        Collective::kBarrier,
                                   Collective::kGather,    Collective::kScatter,       Collective::kAllToAll};
constexpr std::size_t kSizes[] = {0, 1, 8, 63, 64, 4096, 65536, 65537, 1 << 20, (std::size_t{1} << 30) + 5};

Machine machine_of(int ranks) {
  Machine machine;
  machine.ranks = ranks;
  return machine;
}

TEST(Catalogue, HasNoNameTwice) {
  std::set<std::pair<Collective, std::string>> seen;
  for (const Algorithm& algorithm : catalogue()) {
    EXPECT_TRUE(seen.emplace(algorithm.collective, algorithm.name).second) << algorithm.name;
    EXPECT_EQ(find_algorithm(algorithm.collective, algorithm.name), &algorithm);
    EXPECT_TRUE(is_algorithm_name(algorithm.name));
    EXPECT_GE(algorithm.max_lanes, 1);
  }
}

TEST(Catalogue, KnowsWhatItDoesNotOffer) {
  EXPECT_EQ(find_algorithm(Collective::kBroadcast, "ring"), nullptr);
  EXPECT_EQ(find_algorithm(Collective::kAllReduce, "rings"), nullptr);
  EXPECT_FALSE(is_algorithm_name("rings"));
  EXPECT_FALSE(is_algorithm_name(""));
  EXPECT_EQ(algorithm_names(Collective::kBarrier), "all_pairs, dissemination");
  EXPECT_EQ(algorithm_names(Collective::kNone),
            "all_pairs, all_pairs_two_shot, recursive_doubling, ring, chain, tree, pairwise, dissemination");
}

TEST(Choice, HasAnAlgorithmForEveryCollectiveSizeAndRankCount) {
  for (const Collective collective : kOffered) {
    for (const int ranks : {1, 2, 3, 8, 16, 17, 64, 65, 1000}) {
      for (const std::size_t bytes : kSizes) {
        const Choice choice = choose(collective, Bytes{bytes}, machine_of(ranks), "auto", Bytes{0});
        ASSERT_NE(choice.algorithm, nullptr);
        EXPECT_EQ(choice.algorithm->collective, collective);
        EXPECT_FALSE(choice.name_refused);
      }
    }
  }
}

TEST(Choice, HasNoneForACollectiveWithoutAlgorithms) {
  const Choice choice = choose(Collective::kSplit, Bytes{8}, machine_of(4), "auto", Bytes{0});
  EXPECT_EQ(choice.algorithm, nullptr);
}

TEST(Choice, TakesTheForcedNameWhereItIsOffered) {
  const Machine machine = machine_of(4);
  for (const Algorithm& algorithm : catalogue()) {
    const Choice choice = choose(algorithm.collective, Bytes{4096}, machine, algorithm.name, Bytes{0});
    EXPECT_EQ(choice.algorithm, &algorithm);
    EXPECT_FALSE(choice.name_refused);
  }
}

TEST(Choice, ReportsANameThatIsNotOfferedAndGoesOn) {
  const Machine machine = machine_of(4);
  const Choice refused = choose(Collective::kBroadcast, Bytes{8}, machine, "ring", Bytes{0});
  const Choice automatic = choose(Collective::kBroadcast, Bytes{8}, machine, "", Bytes{0});
  EXPECT_TRUE(refused.name_refused);
  EXPECT_FALSE(automatic.name_refused);
  EXPECT_EQ(refused.algorithm, automatic.algorithm);
}

TEST(Choice, DeterministicModeTakesOnlyOnePassReductions) {
  Machine machine = machine_of(100);
  machine.deterministic = true;
  for (const Collective collective : kOffered) {
    for (const std::size_t bytes : kSizes) {
      EXPECT_TRUE(is_deterministic(*choose(collective, Bytes{bytes}, machine, "auto", Bytes{0}).algorithm));
    }
  }
  const Choice forced = choose(Collective::kAllReduce, Bytes{8}, machine, "ring", Bytes{0});
  EXPECT_TRUE(forced.name_refused);
  EXPECT_TRUE(is_deterministic(*forced.algorithm));
  EXPECT_FALSE(choose(Collective::kAllGather, Bytes{8}, machine, "ring", Bytes{0}).name_refused);
}

TEST(Choice, LanesStayWithinTheMachineAndTheAlgorithm) {
  Machine machine = machine_of(4);
  machine.lanes = 1000;
  EXPECT_EQ(choose(Collective::kBarrier, Bytes{0}, machine, "auto", Bytes{0}).lanes, 1);
  EXPECT_EQ(choose(Collective::kAllReduce, Bytes{8}, machine, "ring", Bytes{0}).lanes, 1) << "small: fewer messages";
  const Choice ring = choose(Collective::kAllReduce, Bytes{8 << 20}, machine, "ring", Bytes{0});
  EXPECT_EQ(ring.lanes, 2) << "one thread drives all lanes: both directions of a ring, no more";
  machine.lanes = 0;
  EXPECT_EQ(choose(Collective::kAllReduce, Bytes{8}, machine, "ring", Bytes{0}).lanes, 1);
}

/// What the executor relies on: with the chosen tile no chunk exceeds a message, for every type size and count.
TEST(Choice, NoChunkExceedsAMessage) {
  for (const Algorithm& algorithm : catalogue()) {
    for (const int ranks : {1, 2, 3, 7, 100}) {
      for (const std::size_t message : {64u, 100u, 4096u, 5000u, 262144u}) {
        for (const std::size_t forced : {0u, 1u, 64u, 100000u, 1u << 31}) {
          Machine machine = machine_of(ranks);
          machine.max_message = Bytes{message};
          for (const std::size_t bytes : kSizes) {
            const Choice choice = choose(algorithm.collective, Bytes{bytes}, machine, algorithm.name, Bytes{forced});
            ASSERT_GT(choice.tile_bytes.value, 0u);
            ASSERT_EQ(choice.tile_bytes.value % kPartAlign.value, 0u);
            for (const std::size_t size : {1u, 2u, 4u, 8u}) {
              const Tiling tiling(choice.algorithm->extent(Shape{ranks, 0, 0, choice.lanes}), Elems{bytes / size},
                                  Elems{choice.tile_bytes.value / size}, Elems{kPartAlign.value / size});
              ASSERT_LE(tiling.max_chunk().value * size, message) << algorithm.name << " " << ranks << " " << bytes;
            }
          }
        }
      }
    }
  }
}

TEST(Choice, ForcedTilesAreRoundedAndCut) {
  Machine machine = machine_of(2);
  machine.max_message = Bytes{4096};
  EXPECT_EQ(choose(Collective::kBroadcast, Bytes{1 << 20}, machine, "chain", Bytes{100}).tile_bytes, Bytes{128});
  EXPECT_EQ(choose(Collective::kBroadcast, Bytes{1 << 20}, machine, "chain", Bytes{1 << 20}).tile_bytes, Bytes{4096});
  EXPECT_EQ(choose(Collective::kAllReduce, Bytes{1 << 20}, machine, "ring", Bytes{1 << 20}).tile_bytes, Bytes{8192});
}

}  // namespace
}  // namespace tutti

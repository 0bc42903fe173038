// Covers collectives/choice/choice.cc.
// The choice on one host.
#include "collectives/choice/choice.h"

#include <gtest/gtest.h>

#include <string_view>

#include "collectives/choice/catalogue.h"
#include "schedule/schedule.h"
#include "schedule/tiling.h"

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

/// What is_deterministic promises, read off the tables: every reduction takes all ranks' operands in one pass.
bool reduces_all_at_once(const Algorithm& algorithm, std::int32_t n) {
  for (std::int32_t rank = 0; rank < n; ++rank) {
    for (const Step& step : build_schedule(algorithm, Shape{n, rank, 0, 1}).steps) {
      if (step.has(kReduce) && !(step.recv_from == PeerSet::kAll && step.is(kComplete))) return false;
    }
  }
  return true;
}

TEST(Choice, DeterministicAlgorithmsReduceAllOperandsAtOnce) {
  for (const Algorithm& algorithm : catalogue()) {
    for (const std::int32_t n : {3, 5, 8, 64, 65, 130}) {
      EXPECT_EQ(reduces_all_at_once(algorithm, n), is_deterministic(algorithm)) << algorithm.name << " " << n;
    }
  }
}

TEST(Choice, DeterministicModeHoldsForEveryRankCount) {
  for (int ranks = 1; ranks <= 4096; ranks += ranks < 300 ? 1 : 97) {
    Machine machine = machine_of(ranks);
    machine.deterministic = true;
    for (const Collective collective : {Collective::kAllReduce, Collective::kReduce, Collective::kReduceScatter}) {
      for (const std::size_t bytes : kSizes) {
        ASSERT_TRUE(is_deterministic(*choose(collective, Bytes{bytes}, machine, "auto", Bytes{0}).algorithm)) << ranks;
      }
    }
  }
}

TEST(Choice, DeterministicModeRefusesTheOtherNames) {
  for (const int ranks : {2, 5, 64, 65, 1000}) {
    Machine machine = machine_of(ranks);
    machine.deterministic = true;
    for (const Algorithm& algorithm : catalogue()) {
      const Choice choice = choose(algorithm.collective, Bytes{4096}, machine, algorithm.name, Bytes{0});
      EXPECT_EQ(choice.name_refused, !is_deterministic(algorithm)) << algorithm.name;
      EXPECT_TRUE(is_deterministic(*choice.algorithm));
    }
  }
}

/// One slot of each link together fits a shared cache, messages stay large enough to be worth a slot, and devices
/// have other caches.
TEST(Choice, TilesOfExchangesKeepTheSlotsInTheCache) {
  const auto message = [](Collective collective, const char* name, int ranks, bool on_device) {
    Machine machine = machine_of(ranks);
    machine.max_message = Bytes{256 * 1024};
    machine.credits = 4;
    machine.on_device = on_device;
    const Choice choice = choose(collective, Bytes{64 << 20}, machine, name, Bytes{0});
    return choice.tile_bytes.value / choice.algorithm->extent(Shape{ranks, 0, 0, choice.lanes}).parts;
  };
  const struct {
    Collective collective;
    const char* name;
  } exchanges[] = {{Collective::kAllReduce, "all_pairs_two_shot"},
                   {Collective::kReduceScatter, "all_pairs"},
                   {Collective::kAllToAll, "all_pairs"}};
  for (const auto& [collective, name] : exchanges) {
    SCOPED_TRACE(name);
    EXPECT_EQ(message(collective, name, 2, false), 256u << 10);
    EXPECT_EQ(message(collective, name, 4, false), 256u << 10);
    EXPECT_EQ(message(collective, name, 8, false), 64u << 10);
    EXPECT_EQ(message(collective, name, 64, false), 64u << 10);
    EXPECT_EQ(message(collective, name, 8, true), 256u << 10);
  }
}

TEST(Choice, VFormsRunTheSchedulesOfThePlainOnesOnOneLane) {
  for (const int ranks : {1, 2, 7, 64, 65, 1000}) {
    Machine machine = machine_of(ranks);
    machine.lanes = 8;
    for (const Collective collective : {Collective::kAllGatherV, Collective::kAllToAllV}) {
      for (const char* name : {"auto", "all_pairs", "ring", "pairwise"}) {
        for (const std::size_t bytes : kSizes) {
          const Choice choice = choose(collective, Bytes{bytes}, machine, name, Bytes{0});
          ASSERT_NE(choice.algorithm, nullptr);
          EXPECT_EQ(choice.algorithm->collective, scheduled_as(collective));
          EXPECT_TRUE(is_ragged_capable(*choice.algorithm));
          EXPECT_EQ(choice.lanes, 1);
          EXPECT_EQ(choice.algorithm->extent(Shape{ranks, 0, 0, 1}).parts, 1u);
          Machine one_lane = machine;
          one_lane.lanes = 1;
          const Choice plain = choose(scheduled_as(collective), Bytes{bytes}, one_lane, *choice.algorithm, Bytes{0});
          EXPECT_EQ(choice.tile_bytes, plain.tile_bytes);
          const bool offered = name == std::string_view("auto") || name == std::string_view(choice.algorithm->name);
          EXPECT_EQ(choice.name_refused, !offered) << name;
        }
      }
    }
  }
}

TEST(Choice, VFormsOfAllToAllDependOnRanksOnly) {
  for (const int ranks : {2, 64, 65}) {
    const Choice first = choose(Collective::kAllToAllV, Bytes{0}, machine_of(ranks), "auto", Bytes{0});
    EXPECT_STREQ(first.algorithm->name, ranks > 64 ? "pairwise" : "all_pairs");
    for (const std::size_t bytes : kSizes) {
      const Choice choice = choose(Collective::kAllToAllV, Bytes{bytes}, machine_of(ranks), "auto", Bytes{0});
      EXPECT_EQ(choice.algorithm, first.algorithm);
      EXPECT_EQ(choice.tile_bytes, first.tile_bytes);
    }
  }
}

// Where each core has many ranks, what counts is how often each of them has to run.
TEST(Choice, ACrowdHasFewTurns) {
  const auto name = [](Collective collective, std::size_t bytes, int ranks, int ranks_per_core,
                       bool on_device = false) {
    Machine machine = machine_of(ranks);
    machine.ranks_per_core = ranks_per_core;
    machine.on_device = on_device;
    return std::string(choose(collective, Bytes{bytes}, machine, "auto", Bytes{0}).algorithm->name);
  };
  EXPECT_EQ(name(Collective::kAllReduce, 8, 32, 16), "linear");
  EXPECT_EQ(name(Collective::kAllReduce, 8, 32, 16, true), "all_pairs") << "kernels share no cores";
  EXPECT_EQ(name(Collective::kAllReduce, 8, 32, 1), "all_pairs");
  EXPECT_EQ(name(Collective::kAllReduce, 64 << 20, 512, 256), "linear") << "two cores, instead of 1,022 turns";
  EXPECT_EQ(name(Collective::kAllReduce, 64 << 20, 32, 8), "all_pairs_two_shot") << "four cores work";
  EXPECT_EQ(name(Collective::kAllReduce, 32 << 10, 128, 4), "linear");
  EXPECT_EQ(name(Collective::kAllReduce, 64 << 20, 128, 4), "ring") << "32 cores work";
  EXPECT_EQ(name(Collective::kBarrier, 0, 128, 64), "linear");
  EXPECT_EQ(name(Collective::kReduce, 8, 512, 256), "all_pairs");
  EXPECT_EQ(name(Collective::kReduce, 16 << 20, 512, 256), "chain");
  EXPECT_EQ(name(Collective::kBroadcast, 8, 512, 256), "all_pairs");
  EXPECT_EQ(name(Collective::kAllGather, 8, 512, 256), "all_pairs");
  EXPECT_EQ(name(Collective::kAllToAll, 8, 512, 256), "all_pairs");
  EXPECT_EQ(name(Collective::kReduceScatter, 64 << 10, 64, 32), "all_pairs");
  EXPECT_EQ(name(Collective::kReduceScatter, 128 << 10, 64, 32), "ring");
  EXPECT_EQ(name(Collective::kReduceScatter, 16 << 20, 16, 8), "all_pairs");
  EXPECT_EQ(name(Collective::kReduceScatter, 8, 96, 48), "all_pairs");
  EXPECT_EQ(name(Collective::kReduceScatter, 1 << 10, 96, 48), "recursive_halving");
  EXPECT_EQ(name(Collective::kReduceScatter, 1 << 20, 96, 48), "ring") << "the links of all pairs take gigabytes";
}

// One shot goes further than on shared memory, the further the fewer read.
TEST(Choice, DevicesHaveThresholdsOfTheirOwn) {
  const auto name = [](std::size_t bytes, int ranks, bool on_device) {
    Machine machine = machine_of(ranks);
    machine.on_device = on_device;
    return std::string(choose(Collective::kAllReduce, Bytes{bytes}, machine, "auto", Bytes{0}).algorithm->name);
  };
  EXPECT_EQ(name(512 << 10, 8, true), "all_pairs");
  EXPECT_EQ(name((512 << 10) + 1, 8, true), "all_pairs_two_shot");
  EXPECT_EQ(name(2 << 20, 4, true), "all_pairs");
  EXPECT_EQ(name((2 << 20) + 1, 4, true), "all_pairs_two_shot");
  EXPECT_EQ(name(8 << 20, 2, true), "all_pairs");
  EXPECT_EQ(name((8 << 20) + 1, 2, true), "all_pairs_two_shot");
  EXPECT_EQ(name(64 << 10, 8, false), "all_pairs_two_shot");
  EXPECT_EQ(name(64 << 20, 2, false), "all_pairs");
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
              const std::size_t chunks = choice.algorithm->extent(Shape{ranks, 0, 0, choice.lanes}).message_chunks;
              ASSERT_LE(tiling.max_chunk().value * size * chunks, message)
                  << algorithm.name << " " << ranks << " " << bytes;
            }
          }
        }
      }
    }
  }
}

/// A chunk is 64 bytes or more, so a message of 4 KiB holds 64 of them.
TEST(Choice, AnAlgorithmWhoseChunksDoNotFitAMessageIsRefused) {
  for (const int ranks : {2, 64, 128, 129, 1000}) {
    Machine machine = machine_of(ranks);
    machine.max_message = Bytes{4096};
    for (const Algorithm& algorithm : catalogue()) {
      const Extent extent = algorithm.extent(Shape{ranks, 0, 0, 1});
      const Choice choice = choose(algorithm.collective, Bytes{1 << 20}, machine, algorithm.name, Bytes{0});
      EXPECT_EQ(choice.name_refused, extent.message_chunks > 64) << algorithm.name << " " << ranks;
      EXPECT_EQ(choice.name_refused, choice.algorithm != &algorithm);
    }
  }
  Machine machine = machine_of(1000);
  machine.max_message = Bytes{4096};
  EXPECT_TRUE(choose(Collective::kAllGather, Bytes{8}, machine, "bruck", Bytes{0}).name_refused);
  EXPECT_FALSE(choose(Collective::kAllGather, Bytes{8}, machine, "pat", Bytes{0}).name_refused);
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

// Covers collectives/choice/plan_cache.cc.
// The plan cache: v-forms have plans of their own, and a name that is not offered is warned of once.
#include "collectives/choice/plan_cache.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/log.h"
#include "support/patience.h"

namespace tutti {
namespace {

constexpr std::size_t kLarge = std::size_t{8} << 20;

Machine cached_machine_of(int ranks) {
  Machine machine;
  machine.ranks = ranks;
  machine.lanes = 2;
  return machine;
}

TEST(PlanCache, KeepsPlainAndVFormsApart) {
  PlanCache cache(std::make_shared<const AutomaticChoice>(cached_machine_of(4)), Rank{1}, "ring", Bytes{0},
                  LogSource{});
  for (int round = 0; round < 2; ++round) {
    const Plan plain = cache.find(Collective::kAllGather, Bytes{kLarge}, -1);
    const Plan ragged = cache.find(Collective::kAllGatherV, Bytes{kLarge}, -1);
    EXPECT_EQ(plain.schedule->shape.lanes, 2);
    EXPECT_EQ(plain.schedule->extent.parts, 2u);
    EXPECT_FALSE(plain.one_pass);
    EXPECT_EQ(ragged.schedule->shape.lanes, 1);
    EXPECT_EQ(ragged.schedule->extent.parts, 1u);
    EXPECT_EQ(ragged.schedule->shape.rank, 1);
    EXPECT_STREQ(ragged.schedule->algorithm->name, "ring");
    EXPECT_EQ(plain.tile.value, 2 * ragged.tile.value) << "the largest message a part";
  }
}

TEST(PlanCache, AllToAllVDoesNotDependOnSizes) {
  PlanCache cache(std::make_shared<const AutomaticChoice>(cached_machine_of(4)), Rank{0}, "auto", Bytes{0},
                  LogSource{});
  const Plan small = cache.find(Collective::kAllToAllV, Bytes{0}, -1);
  const Plan large = cache.find(Collective::kAllToAllV, Bytes{kLarge}, -1);
  EXPECT_EQ(small.schedule, large.schedule);
  EXPECT_EQ(small.tile, large.tile);
  EXPECT_EQ(small.tile, cached_machine_of(4).max_message);
  EXPECT_TRUE(small.one_pass) << "the binder leaves v-forms to the interpreter";
}

TEST(PlanCache, OnePassIsForWholeBlocksInOneTile) {
  const auto one_pass = [](const char* algorithm, Collective collective, std::size_t bytes) {
    PlanCache cache(std::make_shared<const AutomaticChoice>(cached_machine_of(8)), Rank{4}, algorithm, Bytes{0},
                    LogSource{});
    return cache.find(collective, Bytes{bytes}, is_rooted(collective) ? 0 : -1).one_pass;
  };
  EXPECT_TRUE(one_pass("all_pairs", Collective::kAllReduce, 64));
  EXPECT_TRUE(one_pass("ring", Collective::kAllGather, 64));
  EXPECT_FALSE(one_pass("all_pairs", Collective::kAllReduce, kLarge)) << "many tiles";
  EXPECT_FALSE(one_pass("all_pairs_two_shot", Collective::kAllReduce, 64)) << "parts";
  EXPECT_FALSE(one_pass("bruck", Collective::kAllGather, 64)) << "messages of several chunks";
  EXPECT_FALSE(one_pass("tree", Collective::kReduce, 64)) << "rank 4 adds, in scratch, what two others have";
}

TEST(PlanCache, SchedulesThatAreAlikeAreBuiltOnce) {
  PlanCache cache(std::make_shared<const AutomaticChoice>(cached_machine_of(4)), Rank{0}, "auto", Bytes{0},
                  LogSource{});
  const Plan plain = cache.find(Collective::kAllToAll, Bytes{64}, -1);
  const std::uint64_t bytes = cache.bytes();
  EXPECT_EQ(plain.schedule, cache.find(Collective::kAllToAllV, Bytes{0}, -1).schedule);
  EXPECT_EQ(cache.bytes(), bytes);
}

TEST(PlanCache, EachRootHasItsSchedule) {
  PlanCache cache(std::make_shared<const AutomaticChoice>(cached_machine_of(4)), Rank{2}, "auto", Bytes{0},
                  LogSource{});
  for (const Collective collective : {Collective::kGather, Collective::kScatter}) {
    EXPECT_EQ(cache.find(collective, Bytes{64}, 2).schedule->steps.size(), 4u);
    EXPECT_EQ(cache.find(collective, Bytes{64}, 0).schedule->steps.size(), 1u);
    EXPECT_EQ(cache.find(collective, Bytes{64}, 2).schedule->shape.root, 2);
  }
}

TEST(PlanCache, WarnsOnceOfANameThatIsNotOffered) {
  std::vector<std::string> lines;
  log_set_callback(
      [](int, const char* line, void* user) { static_cast<std::vector<std::string>*>(user)->emplace_back(line); },
      &lines);
  PlanCache cache(std::make_shared<const AutomaticChoice>(cached_machine_of(4)), Rank{0}, "chain", Bytes{0},
                  LogSource{});
  for (const std::size_t bytes : {8u, 64u, 8u}) {
    EXPECT_STREQ(cache.find(Collective::kAllGatherV, Bytes{bytes}, -1).schedule->algorithm->name, "all_pairs");
    EXPECT_STREQ(cache.find(Collective::kBroadcast, Bytes{bytes}, 0).schedule->algorithm->name, "chain");
  }
  EXPECT_STREQ(cache.find(Collective::kAllToAllV, Bytes{0}, -1).schedule->algorithm->name, "all_pairs");
  EXPECT_TRUE(log_drain(test::kPatience));
  log_set_callback(nullptr, nullptr);
  ASSERT_EQ(lines.size(), 2u) << "one a collective that lacks it";
  EXPECT_NE(lines[0].find("chain is not offered for all_gather_v"), std::string::npos) << lines[0];
  EXPECT_NE(lines[1].find("chain is not offered for all_to_all_v"), std::string::npos) << lines[1];
}

}  // namespace
}  // namespace tutti

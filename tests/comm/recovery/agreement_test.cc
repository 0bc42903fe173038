// Covers comm/recovery/agreement.cc, comm/recovery/agreement_leader.cc: every order of events of small jobs.
#include "comm/recovery/agreement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string_view>

#include "comm/recovery/exploration.h"
#include "support/depth.h"
#include "support/sanitized.h"

namespace tutti::test {

// GoogleTest finds it by this name.
void PrintTo(const Scene& scene, std::ostream* out) { *out << scene.name; }  // NOLINT(readability-identifier-naming)

namespace {

const std::vector<std::vector<int>> kTwo{{0}, {1}};
const std::vector<std::vector<int>> kThree{{0}, {1}, {2}};
const std::vector<std::vector<int>> kFour{{0}, {1}, {2}, {3}};
const std::vector<std::vector<int>> kFive{{0}, {1}, {2}, {3}, {4}};
const std::vector<std::vector<int>> kPairFirst{{0, 2}, {1}};
const std::vector<std::vector<int>> kPairLast{{0}, {1, 2}};

Exploration explored(const Scene& scene) {
  const Exploration found = explore(scene);
  testing::Test::RecordProperty("states", std::to_string(found.states));
  testing::Test::RecordProperty("events", std::to_string(found.events));
  return found;
}

class Scenes : public testing::TestWithParam<Scene> {};

TEST_P(Scenes, KeepWhatIsPromised) {
  const Exploration found = explored(GetParam());
  EXPECT_EQ(found.violation, "") << found.states << " states, " << found.events << " events";
  EXPECT_GT(found.ends, 0u) << "nothing comes to an end";
}

std::string name_of_scene(const testing::TestParamInfo<Scene>& info) { return info.param.name; }

/// Those whose exploration takes seconds with a sanitizer. It has one thread, and more orders of events run no other
/// code.
bool is_long(const Scene& scene) {
  static constexpr std::string_view kLong[] = {
      "two_all_but_cuts", "two_departures", "two_rounds",         "two_rounds_cut",      "pair_last", "three_deaths",
      "three_overdue",    "three_cuts",     "three_stops",        "three_failing_joins", "five",      "excluded_caller",
      "excluded_leader",  "two_stops",      "four_failing_joins", "three_withdrawals",
  };
  return std::ranges::find(kLong, std::string_view(scene.name)) != std::end(kLong);
}

std::vector<Scene> short_scenes() {
  std::vector<Scene> scenes{
      {.name = "two", .ranks = kTwo, .rounds = 2},
      {.name = "two_all_but_cuts",
       .ranks = kTwo,
       .deaths = 1,
       .overdues = 1,
       .remakes = 1,
       .withdrawals = 1,
       .failing_joins = 1},
      {.name = "two_departures", .ranks = kTwo, .deaths = 1, .overdues = 1, .withdrawals = 1, .departures = 1},
      {.name = "two_cuts", .ranks = kTwo, .deaths = 1, .overdues = 1, .cuts = 1, .withdrawals = 1},
      {.name = "two_stops", .ranks = kTwo, .deaths = 1, .overdues = 2, .stops = 1},
      {.name = "two_die", .ranks = kTwo, .deaths = 2},
      {.name = "two_rounds", .ranks = kTwo, .rounds = 2, .deaths = 1, .overdues = 1, .remakes = 1},
      {.name = "two_rounds_cut", .ranks = kTwo, .rounds = 2, .overdues = 1, .cuts = 1, .withdrawals = 1},
      {.name = "two_without_ids", .ranks = kTwo, .deaths = 1, .makes_ids = false},
      {.name = "pair_first", .ranks = kPairFirst, .deaths = 1, .withdrawals = 1, .failing_joins = 1},
      {.name = "pair_last", .ranks = kPairLast, .deaths = 1, .overdues = 1, .departures = 1},
      {.name = "three", .ranks = kThree, .rounds = 2},
      {.name = "three_deaths", .ranks = kThree, .deaths = 2},
      {.name = "three_overdue", .ranks = kThree, .rounds = 2, .overdues = 1},
      {.name = "three_remakes", .ranks = kThree, .remakes = 1},
      {.name = "three_cuts", .ranks = kThree, .cuts = 1},
      {.name = "three_withdrawals", .ranks = kThree, .rounds = 2, .withdrawals = 1},
      {.name = "three_departures", .ranks = kThree, .departures = 1},
      {.name = "three_failing_joins", .ranks = kThree, .rounds = 2, .deaths = 1, .failing_joins = 1},
      {.name = "three_without_ids", .ranks = kThree, .deaths = 1, .makes_ids = false},
      {.name = "excluded_idle", .ranks = kThree, .excluded = {{0, {1}}}, .idle = {1}, .deaths = 1},
      {.name = "excluded_leader", .ranks = kThree, .excluded = {{1, {0}}, {2, {0}}}, .idle = {0}, .deaths = 1},
      {.name = "excluded_caller", .ranks = kThree, .excluded = {{1, {2}}}, .overdues = 1},
      {.name = "excluded_stopped_leader",
       .ranks = kThree,
       .excluded = {{1, {0}}},
       .idle = {0},
       .stops = 1,
       .late_resumption = true,
       .calls_first = true},
      {.name = "three_stops", .ranks = kThree, .overdues = 1, .stops = 1, .late_resumption = true, .calls_first = true},
      {.name = "four", .ranks = kFour},
      {.name = "four_failing_joins", .ranks = kFour, .failing_joins = 1},
      {.name = "five", .ranks = kFive},
  };
  if (kSanitized) std::erase_if(scenes, is_long);
  return scenes;
}

std::vector<Scene> long_scenes() {
  if (!covers_all()) return {};
  return {
      {.name = "two_of_everything",
       .ranks = kTwo,
       .rounds = 2,
       .deaths = 1,
       .overdues = 1,
       .remakes = 1,
       .withdrawals = 1,
       .failing_joins = 1},
      {.name = "two_departures_of_everything",
       .ranks = kTwo,
       .deaths = 1,
       .overdues = 1,
       .remakes = 1,
       .withdrawals = 1,
       .departures = 1,
       .failing_joins = 1},
      {.name = "two_stops_and_remakes", .ranks = kTwo, .rounds = 2, .overdues = 1, .remakes = 1, .stops = 1},
      {.name = "pair_of_everything",
       .ranks = kPairLast,
       .deaths = 1,
       .overdues = 1,
       .withdrawals = 1,
       .failing_joins = 1},
      {.name = "three_deaths_overdue", .ranks = kThree, .deaths = 1, .overdues = 1},
      {.name = "three_rounds_of_deaths", .ranks = kThree, .rounds = 2, .deaths = 2},
      {.name = "three_rounds_deaths_overdue",
       .ranks = kThree,
       .rounds = 2,
       .deaths = 1,
       .overdues = 1,
       .calls_first = true},
      {.name = "three_rounds_remakes_overdue",
       .ranks = kThree,
       .rounds = 2,
       .overdues = 1,
       .remakes = 1,
       .calls_first = true},
      {.name = "three_deaths_withdrawals", .ranks = kThree, .deaths = 1, .withdrawals = 1},
      {.name = "three_deaths_departures", .ranks = kThree, .deaths = 1, .departures = 1},
      {.name = "three_deaths_remakes", .ranks = kThree, .deaths = 1, .remakes = 1, .calls_first = true},
      {.name = "three_deaths_cuts", .ranks = kThree, .deaths = 1, .cuts = 1, .calls_first = true},
      {.name = "three_cuts_overdue", .ranks = kThree, .overdues = 1, .cuts = 1, .calls_first = true},
      {.name = "three_stops_overdue", .ranks = kThree, .overdues = 1, .stops = 1, .late_resumption = true},
      {.name = "four_deaths", .ranks = kFour, .deaths = 1, .calls_first = true},
  };
}

INSTANTIATE_TEST_SUITE_P(Short, Scenes, testing::ValuesIn(short_scenes()), name_of_scene);
INSTANTIATE_TEST_SUITE_P(Long, Scenes, testing::ValuesIn(long_scenes()), name_of_scene);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Scenes);

TEST(Exclusion, OfEveryoneLeavesNobody) {
  Scene scene;
  scene.ranks = kThree;
  scene.excluded = {{0, {1}}, {1, {2}}, {2, {0}}};
  scene.calls_first = true;
  const Exploration found = explored(scene);
  EXPECT_EQ(found.violation, "");
  EXPECT_TRUE(found.outcomes.contains("{} by id 0"));
}

TEST(Deaths, ThatComeLateMayLeaveEveryoneInOrOut) {
  Scene scene;
  scene.ranks = kTwo;
  scene.deaths = 1;
  const Exploration found = explored(scene);
  EXPECT_TRUE(found.outcomes.contains("{0,1} by id 1"));
  EXPECT_TRUE(found.outcomes.contains("{0} by id 1"));
  EXPECT_TRUE(found.outcomes.contains("{1} by id 2"));
}

/// The exploration has to find it, by a text that contains this.
void expect_found(Scene scene, Fault fault, const std::string& text) {
  EXPECT_EQ(explore(scene).violation, "") << "without the fault";
  scene.fault = fault;
  const Exploration found = explored(scene);
  EXPECT_NE(found.violation.find(text), std::string::npos) << found.states << " states: " << found.violation;
}

TEST(PlantedFault, MislaidMessageLeavesSomebodyWaiting) {
  Scene scene;
  scene.ranks = kTwo;
  expect_found(scene, Fault::kMislaidMessage, "wait for nobody");
}

TEST(PlantedFault, StaleReportCountsWhoHasNotJoined) {
  Scene scene;
  scene.ranks = kThree;
  scene.deaths = 1;
  expect_found(scene, Fault::kStaleReport, "has not joined");
}

TEST(PlantedFault, WithoutCommitmentSurvivorsEndOtherwise) {
  Scene scene;
  scene.ranks = kTwo;
  scene.deaths = 1;
  expect_found(scene, Fault::kNoCommitment, "round 1 ends with {1}");
}

TEST(PlantedFault, SilentDeathLeavesSomebodyWaiting) {
  Scene scene;
  scene.ranks = kTwo;
  scene.deaths = 1;
  expect_found(scene, Fault::kSilentDeath, "wait for nobody");
}

TEST(PlantedFault, HiddenFailureCountsWhoHasNotJoined) {
  Scene scene;
  scene.ranks = kTwo;
  scene.failing_joins = 1;
  expect_found(scene, Fault::kHiddenFailure, "has not joined");
}

TEST(PlantedFault, ForgottenExclusionLeavesSomebodyWaiting) {
  Scene scene;
  scene.ranks = kThree;
  scene.excluded = {{1, {2}}};
  scene.idle = {2};
  expect_found(scene, Fault::kForgottenExclusion, "wait for nobody");
}

}  // namespace
}  // namespace tutti::test

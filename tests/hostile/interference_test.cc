// Somebody on the path changes, drops, repeats, reorders, adds to or cuts what travels between ranks, at each point of
// a job: nothing crashes, all ranks end by their deadlines, and where data is protected no result is wrong.
#include "hostile/interference.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>

#include "hostile/trial.h"
#include "support/depth.h"
#include "support/seed.h"

namespace tutti::test {
namespace {

struct Protection {
  const char* name;
  const char* tls;
  const char* checksum;
  bool is_exact;  // no result may be wrong
};

using Way = std::pair<const char*, Interference>;
class TimedInterferences : public ::testing::TestWithParam<std::tuple<Way, Protection>> {};

TEST_P(TimedInterferences, EndInARightResultOrAnError) {
  const auto& [way, protection] = GetParam();
  const TrialSettings settings(true);
  const TrialDeadlines deadlines(2);
  const ScopedSetting tls("TUTTI_TLS", protection.tls);
  const ScopedSetting checksum("TUTTI_CHECKSUM", protection.checksum);
  SCOPED_TRACE(seed_text());
  const std::uint64_t seed = test_seed();
  Trial trial;
  const auto run = [&](Interference interference, long k) {
    trial.run(
        [&](int rank) {
          settings.set_host(rank);
          if (rank == Trial::kVictim) interfere(interference, k, seed + static_cast<std::uint64_t>(k));
        },
        [&](int) { return k == 0             ? pieces_received()
                          : has_interfered() ? 1
                                             : 0; });
  };
  {
    const TrialDeadlines far(kFarSeconds);
    run(Interference::kNone, 0);
  }
  ASSERT_TRUE(trial.is_success()) << trial.texts();
  const long pieces = trial.kept(Trial::kVictim);
  ASSERT_GT(pieces, 20) << "too few for a job that talks";
  const long most = covers_all() ? 60 : 6;
  int runs = 0, interfered = 0, errors = 0, wrong = 0;
  for (long k = 1; k <= pieces; k += (pieces + most - 1) / most) {
    run(way.second, k);
    ++runs;
    interfered += static_cast<int>(trial.kept(Trial::kVictim));
    if (!trial.is_success()) ++errors;
    const std::string where = "piece " + std::to_string(k) + " of " + std::to_string(pieces) + trial.texts();
    for (int rank = 0; rank < Trial::kRanks; ++rank) {
      EXPECT_EQ(trial.end(rank), 0) << where;
      EXPECT_NE(trial.result(rank), static_cast<int>(tuttiInternalError)) << where;
      if (trial.is_exact(rank)) continue;
      ++wrong;
      EXPECT_FALSE(protection.is_exact) << where;
    }
    EXPECT_TRUE(trial.is_timely()) << where;
  }
  EXPECT_GE(interfered, runs / 2) << "the case checks little";
  RecordProperty("errors", std::to_string(errors) + " of " + std::to_string(runs));
  RecordProperty("wrong", wrong);
}

INSTANTIATE_TEST_SUITE_P(
    Of, TimedInterferences,
    ::testing::Combine(::testing::Values(Way("change", Interference::kChange), Way("drop", Interference::kDrop),
                                         Way("repeat", Interference::kRepeat), Way("replay", Interference::kReplay),
                                         Way("reorder", Interference::kReorder), Way("insert", Interference::kInsert),
                                         Way("cut", Interference::kCut)),
                       ::testing::Values(Protection{"clear", "off", "0", false},
                                         Protection{"checksum", "off", "1", true}, Protection{"tls", "on", "0", true})),
    [](const auto& info) { return std::string(std::get<0>(info.param).first) + "_" + std::get<1>(info.param).name; });

}  // namespace
}  // namespace tutti::test

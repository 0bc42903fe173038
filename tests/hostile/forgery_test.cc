// A rank that has the secret sends forged messages, or writes at random into the memory that it shares with others:
// nobody else crashes, and all end by their deadlines.
#include "hostile/forgery.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>

#include "hostile/scribbler.h"
#include "hostile/trial.h"
#include "support/depth.h"
#include "support/seed.h"

namespace tutti::test {
namespace {

/// What holds of the ranks that behave.
void expect_orderly(const Trial& trial, int hostile, const std::string& where) {
  for (int rank = 0; rank < Trial::kRanks; ++rank) {
    if (rank == hostile) continue;
    EXPECT_EQ(trial.end(rank), 0) << where << trial.texts();
  }
  EXPECT_TRUE(trial.is_timely()) << where << trial.texts();
}

/// The rank that forges, and whether each rank is a host of its own.
class TimedForgeries : public ::testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(TimedForgeries, CrashNobody) {
  const auto [forger, apart] = GetParam();
  const TrialSettings settings(apart);
  const TrialDeadlines deadlines(2);
  SCOPED_TRACE(seed_text());
  const std::uint64_t seed = test_seed();
  Trial trial;
  const auto run = [&, forger = forger](long k, std::uint64_t rarity, std::uint64_t round) {
    trial.run(
        [&](int rank) {
          settings.set_host(rank);
          forge(rank == forger ? k : 0, rarity, seed + round);
        },
        [&](int) { return k == 0 ? messages_sent() : messages_forged(); });
  };
  {
    const TrialDeadlines far(kFarSeconds);
    run(0, 0, 0);
  }
  ASSERT_TRUE(trial.is_success()) << trial.texts();
  const long messages = trial.kept(forger);
  ASSERT_GT(messages, 5);
  RecordProperty("messages", static_cast<int>(messages));
  long forged = 0;
  const int rounds = covers_all() ? 100 : 12;
  for (int round = 0; round < rounds; ++round) {
    const long k = 1 + round * messages / rounds;
    run(k, static_cast<std::uint64_t>(round % 3 * 2), static_cast<std::uint64_t>(round));
    forged += trial.kept(forger);
    expect_orderly(trial, -1, "round " + std::to_string(round) + ", message " + std::to_string(k));
  }
  EXPECT_GE(forged, rounds / 2) << "the case checks little";
}

INSTANTIATE_TEST_SUITE_P(Of, TimedForgeries, ::testing::Combine(::testing::Values(0, 1), ::testing::Bool()),
                         [](const auto& info) {
                           return "rank" + std::to_string(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) ? "_apart" : "_together");
                         });

TEST(TimedScribbles, CrashNobodyElse) {
  const TrialSettings settings(false);
  const TrialDeadlines deadlines(2);
  SCOPED_TRACE(seed_text());
  const std::uint64_t seed = test_seed();
  Trial trial;
  long written = 0;
  std::unique_ptr<Scribbler> scribbler;
  for (int round = 0; round < (covers_all() ? 100 : 12); ++round) {
    trial.run(
        [&](int rank) {
          if (rank != Trial::kVictim) return;
          const auto number = static_cast<std::uint64_t>(round);
          scribbler = std::make_unique<Scribbler>(seed + number, static_cast<unsigned>(number * 997 % 30'000));
        },
        [&](int) {
          const long count = scribbler != nullptr ? scribbler->written() : 0;
          scribbler.reset();
          return count;
        });
    written += trial.kept(Trial::kVictim);
    expect_orderly(trial, Trial::kVictim, "round " + std::to_string(round));
  }
  EXPECT_GT(written, 1000) << "the case checks nothing";
}

}  // namespace
}  // namespace tutti::test

// A rank that has the secret sends forged messages, or writes at random into the memory that it shares with others:
// nobody else crashes, and all end by their deadlines.
// Covers comm/messages/messages.cc, comm/membership/process_membership.cc, comm/join/root.cc,
// transport/shm/shm_ring.h.
#include "hostile/forgery.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>

#include "hostile/scribbler.h"
#include "support/depth.h"
#include "support/disturbed_job.h"
#include "support/patience.h"
#include "support/sanitized.h"
#include "support/seed.h"

namespace tutti::test {
namespace {

constexpr int kScribbler = 1;

/// What holds of the ranks that behave.
void expect_orderly(const DisturbedJob& job, int hostile, const std::string& where) {
  for (int rank = 0; rank < DisturbedJob::kRanks; ++rank) {
    if (rank == hostile) continue;
    EXPECT_EQ(job.end(rank), 0) << where << job.texts();
  }
  EXPECT_LE(job.seconds(), kSlowest + job.second_here()) << where << job.texts();
}

/// The rank that forges, and whether each rank is a host of its own.
class TimedForgeries : public ::testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(TimedForgeries, CrashNobody) {
  const auto [forger, apart] = GetParam();
  const ScopedDeadlines deadlines(2);
  SCOPED_TRACE(seed_text());
  const std::uint64_t seed = test_seed();
  DisturbedJob job;
  const auto run = [&, forger = forger, is_apart = apart](long k, std::uint64_t rarity, std::uint64_t round) {
    job.run(
        kWholeJob,
        [&](int rank) {
          if (is_apart) be_a_host(rank);
          forge(rank == forger ? k : 0, rarity, seed + round);
        },
        [&](int) { return k == 0 ? messages_sent() : messages_forged(); });
  };
  {
    const ScopedDeadlines far(kFarSeconds);
    run(0, 0, 0);
  }
  ASSERT_TRUE(job.is_success()) << job.texts();
  const long messages = job.kept(forger);
  ASSERT_GT(messages, 5);
  RecordProperty("messages", static_cast<int>(messages));
  long forged = 0;
  const auto rounds = static_cast<int>(points_tried(100, kSanitized ? 6 : 12));
  for (int round = 0; round < rounds; ++round) {
    const long k = 1 + round * messages / rounds;
    run(k, static_cast<std::uint64_t>(round % 3 * 2), static_cast<std::uint64_t>(round));
    forged += job.kept(forger);
    expect_orderly(job, -1, "round " + std::to_string(round) + ", message " + std::to_string(k));
  }
  EXPECT_GE(forged, rounds / 2) << "the case checks little";
}

INSTANTIATE_TEST_SUITE_P(Of, TimedForgeries, ::testing::Combine(::testing::Values(0, 1), ::testing::Bool()),
                         [](const auto& info) {
                           return "rank" + std::to_string(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) ? "_apart" : "_together");
                         });

TEST(TimedScribbles, CrashNobodyElse) {
  const ScopedDeadlines deadlines(2);
  SCOPED_TRACE(seed_text());
  const std::uint64_t seed = test_seed();
  DisturbedJob job;
  long written = 0;
  std::unique_ptr<Scribbler> scribbler;
  for (int round = 0; round < points_tried(100, kSanitized ? 6 : 12); ++round) {
    job.run(
        kWholeJob,
        [&](int rank) {
          if (rank != kScribbler) return;
          const auto number = static_cast<std::uint64_t>(round);
          scribbler = std::make_unique<Scribbler>(seed + number, static_cast<unsigned>(number * 997 % 30'000));
        },
        [&](int) {
          const long count = scribbler != nullptr ? scribbler->written() : 0;
          scribbler.reset();
          return count;
        });
    written += job.kept(kScribbler);
    expect_orderly(job, kScribbler, "round " + std::to_string(round));
  }
  EXPECT_GT(written, 1000) << "the case checks nothing";
}

}  // namespace
}  // namespace tutti::test

// Somebody on the path changes, drops, repeats, reorders, adds to or cuts what travels between ranks, at each point of
// a job: nothing crashes, all ranks end by their deadlines, and where data is protected no result is wrong.
// Covers net/frame_codec.cc, net/tls_session.cc, transport/tcp/tcp_frame.cc, transport/tcp/tcp_inbox.cc.
#include "hostile/interference.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>

#include "support/depth.h"
#include "support/disturbed_job.h"
#include "support/patience.h"
#include "support/sanitized.h"
#include "support/seed.h"

namespace tutti::test {
namespace {

constexpr int kVictim = 1;  // whose connections are disturbed; rank 0 serves the id

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
  const ScopedDeadlines deadlines(2);
  const ScopedSetting tls("TUTTI_TLS", protection.tls);
  const ScopedSetting checksum("TUTTI_CHECKSUM", protection.checksum);
  SCOPED_TRACE(seed_text());
  const std::uint64_t seed = test_seed();
  DisturbedJob job;
  const auto run = [&](Interference interference, long k) {
    job.run(
        kWholeJob,
        [&](int rank) {
          be_a_host(rank);
          if (rank == kVictim) interfere(interference, k, seed + static_cast<std::uint64_t>(k));
        },
        [&](int) { return k == 0             ? pieces_received()
                          : has_interfered() ? 1
                                             : 0; });
  };
  {
    const ScopedDeadlines far(kFarSeconds);
    run(Interference::kNone, 0);
  }
  ASSERT_TRUE(job.is_success()) << job.texts();
  const long pieces = job.kept(kVictim);
  ASSERT_GT(pieces, 20) << "too few for a job that talks";
  const long most = points_tried(60, kSanitized ? 3 : 6);
  int runs = 0, interfered = 0, errors = 0, wrong = 0;
  for (long k = 1; k <= pieces; k += (pieces + most - 1) / most) {
    run(way.second, k);
    ++runs;
    interfered += static_cast<int>(job.kept(kVictim));
    if (!job.is_success()) ++errors;
    const std::string where = "piece " + std::to_string(k) + " of " + std::to_string(pieces) + job.texts();
    for (int rank = 0; rank < DisturbedJob::kRanks; ++rank) {
      EXPECT_EQ(job.end(rank), 0) << where;
      EXPECT_NE(job.result(rank), static_cast<int>(tuttiInternalError)) << where;
      if (job.is_exact(rank)) continue;
      ++wrong;
      EXPECT_FALSE(protection.is_exact) << where;
    }
    EXPECT_LE(job.seconds(), kSlowest + job.second_here()) << where;
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

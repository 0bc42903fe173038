// Every pair of a send and a receive that differ in count or type: tuttiMismatch on both ranks within a second, at the
// receive, and at the next call of who only sent. The text has both sides.
// Covers comm/failure/wait_judge.cc, executor/point_to_point.cc.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "support/depth.h"
#include "support/ranks.h"
#include "support/texts.h"
#include "support/yardstick.h"

namespace tutti::test {
namespace {

using Clock = std::chrono::steady_clock;

struct Letter {
  std::size_t count;
  tuttiDataType_t type;
  const char* name;

  std::string text() const { return fmt::format("{} {}", count, name); }
};

/// None; such as fit into a message of the link; and such as do not. Two types are of one size.
std::vector<Letter> all_letters() {
  std::vector<Letter> letters;
  for (const std::size_t count :
       {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{101}, std::size_t{70'000}, std::size_t{600'000}})
    for (const auto& [type, name] :
         {std::pair(tuttiInt32, "int32"), std::pair(tuttiFloat32, "float32"), std::pair(tuttiFloat64, "float64")})
      letters.push_back({count, type, name});
  return letters;
}

/// How both ranks make their call.
enum class Way { kBlocking, kStream, kGroup };

class Correspondent {
 public:
  Correspondent(tuttiComm_t comm, int rank, Way way) : comm_(comm), rank_(rank), way_(way), data_(600'000) {}

  /// Rank 0 sends, rank 1 receives.
  tuttiResult_t correspond(const Letter& letter) {
    tuttiStream_t stream = nullptr;
    if (way_ == Way::kStream) {
      EXPECT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    }
    if (way_ == Way::kGroup) {
      EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    }
    tuttiResult_t result = rank_ == 0 ? tuttiSend(data_.data(), letter.count, letter.type, 1, comm_, stream)
                                      : tuttiRecv(data_.data(), letter.count, letter.type, 0, comm_, stream);
    if (way_ == Way::kGroup) result = tuttiGroupEnd();
    if (stream == nullptr) return result;
    EXPECT_EQ(result, tuttiSuccess);
    result = tuttiStreamSynchronize(stream);
    (void)tuttiStreamDestroy(stream);
    return result;
  }

 private:
  tuttiComm_t comm_;
  const int rank_;
  const Way way_;
  std::vector<double> data_;
};

void expect_mismatch(tuttiComm_t comm, int rank, Way way, const Letter& sent, const Letter& received) {
  Yardstick yardstick;
  Correspondent correspondent(comm, rank, way);
  const Clock::time_point begin = Clock::now();
  tuttiResult_t result = correspondent.correspond(rank == 0 ? sent : received);
  const std::string trace =
      fmt::format("rank {}: {} sent, {} received, way {}", rank, sent.text(), received.text(), static_cast<int>(way));
  if (rank == 1) {
    EXPECT_EQ(result, tuttiMismatch) << trace;
  }
  if (result == tuttiSuccess) result = tuttiBarrier(comm, nullptr);
  const std::string late = yardstick.judge(1, Clock::now() - begin);
  EXPECT_EQ(result, tuttiMismatch) << trace;
  EXPECT_EQ(late, "") << trace;
  EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiMismatch) << trace;
  const std::string text = tuttiGetLastError(comm);
  EXPECT_TRUE(contains(text, "rank 0 sent " + sent.text())) << trace << ": " << text;
  EXPECT_TRUE(contains(text, "rank 1 receives " + received.text())) << trace << ": " << text;
}

class TimedTransferMismatches : public ::testing::TestWithParam<const char*> {};

TEST_P(TimedTransferMismatches, OfEveryPairAreNamed) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const ScopedSetting timeout("TUTTI_TIMEOUT", "10");
  const ScopedSetting transport("TUTTI_TRANSPORT", GetParam());
  const std::size_t step = covers_all() ? 1 : 7;
  run_threads(2, [step](tuttiComm_t comm, int rank) {
    const std::vector<Letter> letters = all_letters();
    for (std::size_t pair = 0; pair < letters.size() * letters.size(); pair += step) {
      const Letter& sent = letters[pair / letters.size()];
      const Letter& received = letters[pair % letters.size()];
      if (&sent == &received) continue;
      tuttiComm_t part = nullptr;
      ASSERT_EQ(tuttiCommSplit(comm, 0, 0, &part, nullptr), tuttiSuccess) << tuttiGetLastError(comm);
      expect_mismatch(part, rank, static_cast<Way>((pair / step + pair / letters.size()) % 3), sent, received);
      EXPECT_EQ(tuttiCommDestroy(part), tuttiMismatch);
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(comm);
  });
}

INSTANTIATE_TEST_SUITE_P(Over, TimedTransferMismatches, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tutti::test

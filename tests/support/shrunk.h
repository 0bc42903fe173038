// What tests of tuttiCommShrink ask of the communicator that it makes, and of who is left out.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <tutti/tutti.h>

#include <atomic>
#include <cstddef>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "support/await.h"
#include "support/ranks.h"
#include "support/temporary_directory.h"
#include "support/texts.h"

namespace tutti::test {

inline tuttiResult_t shrink_without(const std::vector<int>& exclude, tuttiComm_t comm, tuttiComm_t* made,
                                    const tuttiConfig_t* config = nullptr, int flags = TUTTI_SHRINK_DEFAULT) {
  const int* const ranks = exclude.empty() ? nullptr : exclude.data();
  return tuttiCommShrink(comm, ranks, static_cast<int>(exclude.size()), made, config, flags);
}

/// Each rank adds a bit of its own, so that the sum says whose values are in it.
inline int sum_of(const std::vector<int>& numbers) {
  int sum = 0;
  for (const int number : numbers) sum += 1 << number;
  return sum;
}

/// A sum over `comm` is that of `numbers`, of which the caller's is `own`.
inline void expect_sum(tuttiComm_t comm, int own, const std::vector<int>& numbers) {
  std::vector<int> values(5000, 1 << own);
  EXPECT_EQ(tuttiAllReduce(values.data(), values.data(), values.size(), tuttiInt32, tuttiSum, comm, nullptr),
            tuttiSuccess)
      << tuttiGetLastError(comm);
  EXPECT_EQ(values, std::vector<int>(values.size(), sum_of(numbers)));
}

/// What a shrink made for rank `own` of the old communicator has these members, in this order, and works.
inline void expect_shrunk(tuttiComm_t made, int own, const std::vector<int>& members) {
  ASSERT_NE(made, nullptr);
  int count = 0, rank = -1;
  EXPECT_EQ(tuttiCommCount(made, &count), tuttiSuccess);
  EXPECT_EQ(static_cast<std::size_t>(count), members.size());
  EXPECT_EQ(tuttiCommUserRank(made, &rank), tuttiSuccess);
  ASSERT_LT(static_cast<std::size_t>(rank), members.size());
  EXPECT_EQ(members[static_cast<std::size_t>(rank)], own);
  std::string right;
  for (const int member : members) right += (right.empty() ? "" : " ") + std::to_string(member);
  char text[200] = {};
  EXPECT_EQ(tuttiCommGetInfo(made, "members", text, sizeof text), tuttiSuccess) << tuttiGetLastError(made);
  EXPECT_EQ(std::string(text), right);
  expect_sum(made, own, members);
}

/// The call was the caller's part in a shrink that leaves all of `members`.
inline void expect_shrinks_to(const std::vector<int>& members, const std::vector<int>& exclude, tuttiComm_t comm,
                              int own, tuttiComm_t* made, const tuttiConfig_t* config = nullptr,
                              int flags = TUTTI_SHRINK_DEFAULT) {
  *made = nullptr;
  ASSERT_EQ(shrink_without(exclude, comm, made, config, flags), tuttiSuccess) << tuttiGetLastError(nullptr);
  expect_shrunk(*made, own, members);
}

inline tuttiResult_t max_of(tuttiComm_t comm) {
  int value = 1;
  return tuttiAllReduce(&value, &value, 1, tuttiInt32, tuttiMax, comm, nullptr);
}

inline void expect_left_out(tuttiResult_t result, tuttiComm_t comm) {
  EXPECT_EQ(result, tuttiRemoteError);
  EXPECT_TRUE(contains(tuttiGetLastError(comm), "left out by a shrink")) << tuttiGetLastError(comm);
}

/// The caller's own Shrink is of no use any more.
inline void expect_shrink_leaves_out(tuttiComm_t comm) {
  tuttiComm_t made = comm;
  expect_left_out(shrink_without({}, comm, &made), comm);
  EXPECT_EQ(made, nullptr);
}

/// How the ranks are placed, and talk to each other.
struct ShrinkWay {
  const char* name;
  const char* transport;
  bool processes;
  const char* tls;
  bool has_secret_file;
};

/// Ranks take steps that all of them see, be they threads or processes.
class ShrinkTest : public ::testing::TestWithParam<ShrinkWay> {
 protected:
  static constexpr int kSteps = 8;

  ShrinkTest() {
    if (!GetParam().has_secret_file) return;
    const std::string path = directory_.file("secret");
    std::ofstream(path) << "what the ranks know, and nobody else";
    ::chmod(path.c_str(), 0600);
    ::setenv("TUTTI_SECRET_FILE", path.c_str(), 1);
  }
  ~ShrinkTest() override {
    if (GetParam().has_secret_file) ::unsetenv("TUTTI_SECRET_FILE");
  }

  void run(int ranks, const RankBody& body, const tuttiConfig_t* config = nullptr) {
    if (!GetParam().processes) return run_threads(ranks, body, config);
    Processes processes(ranks, [&](tuttiComm_t comm, int rank, Shared&) { body(comm, rank); });
    processes.expect_success();
  }
  void take_step(int step) { ++(*steps_)[step]; }
  int steps_taken(int step) { return (*steps_)[step]; }
  void await_step(int step, int ranks) {
    await([&] { return (*steps_)[step] >= ranks; }, std::to_string(ranks) + " ranks in step " + std::to_string(step));
  }

 private:
  struct Steps {
    std::atomic<int> taken[kSteps] = {};
    std::atomic<int>& operator[](int step) { return taken[step]; }
  };
  const ScopedSetting quiet_{"TUTTI_LOG", "error"};
  const ScopedSetting transport_{"TUTTI_TRANSPORT", GetParam().transport};
  const ScopedSetting tls_{"TUTTI_TLS", GetParam().tls};
  const TemporaryDirectory directory_;
  const SharedMemory<Steps> steps_;
};

}  // namespace tutti::test

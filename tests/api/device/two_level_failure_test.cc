// Calls at two levels that fail: whoever waits, for a rank of its host or of another one, learns whose doing it is.
// Covers comm/failure/wait_judge.cc, comm/device/host_exchange.cc, comm/device/device_side.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <string>
#include <vector>

#include "support/device/host_names.h"
#include "support/texts.h"

namespace tutti::test {
namespace {

constexpr std::size_t kFailureCount = 300'000;  // two segments

/// Odd ranks call on CUDA streams.
void reduce_segments(tuttiComm_t comm, int rank, Shared& shared) {
  reduce_until_failure(comm, rank, shared, kFailureCount, true);
}

/// Hosts of two processes of a rank each.
DeviceLayout hosts(int processes) {
  DeviceLayout layout{processes, 1, 1};
  layout.before = [](int process) { name_host(process, 2); };
  return layout;
}

class TwoLevelKill : public ::testing::TestWithParam<int> {};

TEST_P(TwoLevelKill, IsNamedByAll) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const int victim = GetParam();
  DeviceProcesses processes(hosts(4), reduce_segments);
  for (int rank = 0; rank < 4; ++rank) processes.shared().wait_for_step(rank, 3);
  processes.signal(victim, SIGKILL);
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(processes.wait(rank), rank == victim ? SIGKILL : 0) << rank;
  for (int rank = 0; rank < 4; ++rank) {
    if (rank == victim) continue;
    EXPECT_EQ(processes.shared().result[rank], tuttiRemoteError) << processes.text(rank);
    EXPECT_TRUE(contains(processes.text(rank), "rank " + std::to_string(victim) + " (")) << processes.text(rank);
    EXPECT_TRUE(contains(processes.text(rank), "died")) << processes.text(rank);
  }
}
INSTANTIATE_TEST_SUITE_P(Victims, TwoLevelKill, ::testing::Values(0, 1, 3));

TEST(TimedTwoLevelStop, AStoppedProcessIsNamedAtTheTimeout) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const ScopedSetting timeout("TUTTI_TIMEOUT", "4");
  DeviceProcesses processes(hosts(4), reduce_segments);
  for (int rank = 0; rank < 4; ++rank) processes.shared().wait_for_step(rank, 3);
  stop_process(processes.pid(2));
  for (const int rank : {0, 1, 3}) {
    EXPECT_EQ(processes.wait(rank), 0);
    EXPECT_EQ(processes.shared().result[rank], tuttiTimeout) << processes.text(rank);
    EXPECT_TRUE(contains(processes.text(rank), "rank 2 does not answer")) << processes.text(rank);
  }
  processes.signal(2, SIGCONT);
  EXPECT_EQ(processes.wait(2), 0) << "it is told when it goes on";
  EXPECT_NE(processes.shared().result[2], tuttiSuccess);
}

/// The driver's call in which a process ends while the ranks of its host, or all, set up their devices.
class TwoLevelDeathInJoin : public ::testing::TestWithParam<const char*> {};

TEST_P(TwoLevelDeathInJoin, IsNamedByAll) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  DeviceLayout layout = hosts(4);
  layout.before = [](int process) {
    name_host(process, 2);
    if (process == 1) stand_in().before_each(GetParam(), [] { ::kill(::getpid(), SIGKILL); });
  };
  DeviceProcesses processes(layout, [](tuttiComm_t comm, int, Shared&) { EXPECT_EQ(comm, nullptr); });
  EXPECT_EQ(processes.wait(1), SIGKILL);
  for (const int rank : {0, 2, 3}) {
    EXPECT_EQ(processes.wait(rank), 0);
    EXPECT_EQ(processes.shared().result[rank], tuttiRemoteError) << processes.text(rank);
    EXPECT_TRUE(contains(processes.text(rank), "rank 1 (")) << processes.text(rank);
  }
}
INSTANTIATE_TEST_SUITE_P(Calls, TwoLevelDeathInJoin, ::testing::Values("allocate", "open_memory", "launch"));

/// Each rank makes another call than rank 3 does.
void expect_mismatch(const std::function<tuttiResult_t(tuttiComm_t comm, int rank)>& call, const std::string& text) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  DeviceProcesses processes(hosts(4), [&](tuttiComm_t comm, int rank, Shared& shared) {
    ASSERT_NE(comm, nullptr) << shared.text[rank];
    shared.step[rank] = 1;
    for (int peer = 0; peer < 4; ++peer) shared.wait_for_step(peer, 1);  // all have left the join
    const tuttiResult_t result = call(comm, rank);
    shared.report(rank, result, tuttiGetLastError(comm));
    EXPECT_NE(tuttiCommDestroy(comm), tuttiSuccess);
  });
  processes.expect_success();
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(processes.shared().result[rank], tuttiMismatch) << rank << ": " << processes.text(rank);
    EXPECT_TRUE(contains(processes.text(rank), text)) << processes.text(rank);
  }
}

TEST(TwoLevelMismatch, OfCountsAcrossTheThreshold) {
  expect_mismatch(
      [](tuttiComm_t comm, int rank) {
        DeviceFloats data(std::vector<float>(rank == 3 ? 1000 : kFailureCount, 0.0f));
        return data.reduce(comm);
      },
      "rank 3");
}

TEST(TwoLevelMismatch, OfKindsOfMemory) {
  expect_mismatch(
      [](tuttiComm_t comm, int rank) {
        std::vector<float> host(kFailureCount, 0.0f);
        DeviceFloats data(host);
        float* const buffer = rank == 3 ? host.data() : data.data();
        return tuttiAllReduce(buffer, buffer, kFailureCount, tuttiFloat32, tuttiSum, comm, nullptr);
      },
      "rank 3");
}

TEST(TwoLevelFailure, AFailedLaunchIsADeviceErrorThatAllHearOf) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  DeviceProcesses processes(hosts(4), [&](tuttiComm_t comm, int rank, Shared& shared) {
    ASSERT_NE(comm, nullptr) << shared.text[rank];
    DeviceFloats data(std::vector<float>(kFailureCount, 0.0f));
    EXPECT_EQ(data.reduce(comm), tuttiSuccess) << tuttiGetLastError(comm);
    shared.step[rank] = 1;
    for (int peer = 0; peer < 4; ++peer) shared.wait_for_step(peer, 1);  // all have made the first call
    if (rank == 2) stand_in().fail_next("launch", "an illegal memory access was encountered");
    EXPECT_EQ(data.reduce(comm), tuttiUnhandledCudaError);
    EXPECT_TRUE(contains(tuttiGetLastError(comm), "illegal memory access")) << tuttiGetLastError(comm);
    EXPECT_NE(tuttiCommDestroy(comm), tuttiSuccess);
  });
  processes.expect_success();
}

TEST(TwoLevelFailure, ABufferOfAnotherDeviceIsRefusedAndTheRestGoesOn) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  DeviceLayout layout{2, 2, 2};
  layout.before = [](int process) { name_host(process); };
  DeviceProcesses processes(layout, [](tuttiComm_t comm, int rank, Shared& shared) {
    ASSERT_NE(comm, nullptr) << shared.text[rank];
    DeviceFloats data(std::vector<float>(kFailureCount, 1.0f));
    DeviceFloats other(kFailureCount, 1 - stand_in().current_device());
    EXPECT_EQ(tuttiAllReduce(data.data(), other.data(), kFailureCount, tuttiFloat32, tuttiSum, comm, nullptr),
              tuttiInvalidArgument);
    EXPECT_TRUE(contains(tuttiGetLastError(comm), "recvbuff of rank")) << tuttiGetLastError(comm);
    EXPECT_EQ(data.reduce(comm), tuttiSuccess) << tuttiGetLastError(comm);
    EXPECT_TRUE(data.get() == std::vector<float>(kFailureCount, 4.0f));
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
  processes.expect_success();
}

}  // namespace
}  // namespace tutti::test

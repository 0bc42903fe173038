// Ranks with device memory go on after deaths, without some of them, and with newcomers.
// Covers comm/shrink.cc, comm/grow.cc, comm/device/device_side.cc.
#include <gtest/gtest.h>
#include <signal.h>
#include <tutti/tutti.h>

#include <atomic>
#include <string>
#include <vector>

#include "support/device/host_names.h"
#include "support/shrunk.h"

namespace tutti::test {
namespace {

constexpr std::size_t kShrunkCount = 300'000;

/// Sums of ones in device memory, blocking and on a CUDA stream, are as many as there are ranks.
void expect_device_sums(tuttiComm_t comm, int ranks) {
  int count = 0;
  EXPECT_EQ(tuttiCommCount(comm, &count), tuttiSuccess);
  EXPECT_EQ(count, ranks);
  DeviceFloats data(kShrunkCount);
  EXPECT_EQ(data.reduce(comm), tuttiSuccess) << tuttiGetLastError(comm);
  EXPECT_TRUE(data.is(static_cast<float>(ranks)));
  DeviceDriver::Stream cuda = nullptr;
  tuttiStream_t stream = nullptr;
  ASSERT_TRUE(stand_in().create_caller_stream(stand_in().current_device(), &cuda).ok());
  ASSERT_EQ(tuttiStreamFromCuda(&stream, cuda), tuttiSuccess);
  data.fill(1.0f);
  EXPECT_EQ(data.reduce(comm, stream), tuttiSuccess) << tuttiGetLastError(comm);
  EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiSuccess) << tuttiGetLastError(comm);
  EXPECT_TRUE(data.is(static_cast<float>(ranks)));
  EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
  EXPECT_TRUE(stand_in().destroy_stream(cuda).ok());
}

struct ShrinkLayout {
  const char* name;
  int processes, ranks_each;
  int processes_a_host;

  DeviceLayout layout() const {
    DeviceLayout devices{processes, ranks_each, ranks_each};
    devices.before = [each = processes_a_host](int process) { name_host(process, each); };
    return devices;
  }
  int ranks() const { return processes * ranks_each; }
};

class DeviceShrinks : public ::testing::TestWithParam<ShrinkLayout> {
 protected:
  const ScopedSetting quiet_{"TUTTI_LOG", "error"};
};

TEST_P(DeviceShrinks, AfterADeath) {
  const int left = GetParam().ranks() - GetParam().ranks_each;
  DeviceProcesses processes(GetParam().layout(), [left](tuttiComm_t comm, int rank, Shared& shared) {
    ASSERT_NE(comm, nullptr) << shared.text[rank];
    tuttiResult_t result = tuttiSuccess;
    {
      DeviceFloats data(kShrunkCount);
      for (; result == tuttiSuccess; ++shared.step[rank]) {
        data.fill(1.0f);
        result = data.reduce(comm);
      }
    }
    EXPECT_EQ(result, tuttiRemoteError) << tuttiGetLastError(comm);
    tuttiComm_t made = nullptr;
    ASSERT_EQ(shrink_without({}, comm, &made), tuttiSuccess) << tuttiGetLastError(nullptr);
    (void)tuttiCommDestroy(comm);
    expect_device_sums(made, left);
    EXPECT_EQ(tuttiCommDestroy(made), tuttiSuccess);
  });
  for (int rank = 0; rank < GetParam().ranks(); ++rank) processes.shared().wait_for_step(rank, 3);
  constexpr int kVictim = 1;
  processes.signal(kVictim, SIGKILL);
  for (int process = 0; process < GetParam().processes; ++process)
    EXPECT_EQ(processes.wait(process), process == kVictim ? SIGKILL : 0) << process;
}

TEST_P(DeviceShrinks, WithoutOneThatIsExcluded) {
  if (stand_in().is_strict() && GetParam().name == std::string("two_processes"))
    GTEST_SKIP() << "the kernel of the rank that is left out runs in the process of one that stays, whose allocations "
                    "wait for its deadline; nobody tells it before the shrink has ended";
  const int ranks = GetParam().ranks();
  DeviceProcesses processes(GetParam().layout(), [ranks](tuttiComm_t comm, int rank, Shared& shared) {
    ASSERT_NE(comm, nullptr) << shared.text[rank];
    expect_device_sums(comm, ranks);
    ++shared.step[rank];
    tuttiComm_t made = nullptr;
    if (rank == 0) {
      DeviceFloats data(kShrunkCount);
      expect_left_out(data.reduce(comm), comm);
    } else {
      shared.wait_for_step(0, 1);  // it may get its sums after the others have theirs
      EXPECT_EQ(shrink_without({0}, comm, &made), tuttiSuccess) << tuttiGetLastError(nullptr);
      expect_device_sums(made, ranks - 1);
      EXPECT_EQ(tuttiCommDestroy(made), tuttiSuccess);
    }
    (void)tuttiCommDestroy(comm);
  });
  processes.expect_success();
}

TEST_P(DeviceShrinks, AndGrowsByANewcomer) {
  struct Meeting {
    std::atomic<bool> is_made{false};
    tuttiUniqueId id{};
  };
  const SharedMemory<Meeting> meeting;
  const int ranks = GetParam().ranks();
  DeviceProcesses processes(GetParam().layout(), [&](tuttiComm_t comm, int rank, Shared& shared) {
    ASSERT_NE(comm, nullptr) << shared.text[rank];
    expect_device_sums(comm, ranks);
    if (rank == 0) {
      EXPECT_EQ(tuttiCommGetUniqueId(comm, &meeting->id), tuttiSuccess) << tuttiGetLastError(comm);
      meeting->is_made = true;
    }
    tuttiComm_t grown = nullptr;
    ASSERT_EQ(tuttiCommGrow(comm, ranks + 1, rank == 0 ? &meeting->id : nullptr, -1, &grown, nullptr), tuttiSuccess)
        << tuttiGetLastError(nullptr);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
    expect_device_sums(grown, ranks + 1);
    EXPECT_EQ(tuttiCommDestroy(grown), tuttiSuccess);
  });
  processes.start([&] {
    name_host(GetParam().processes, GetParam().processes_a_host);
    stand_in().set_devices(1);
    stand_in().be_seen_as(ranks);
    StandInDriver::use(0);
    await([&] { return meeting->is_made.load(); }, "an id");
    tuttiComm_t grown = nullptr;
    ASSERT_EQ(tuttiCommGrow(nullptr, ranks + 1, &meeting->id, ranks, &grown, nullptr), tuttiSuccess)
        << tuttiGetLastError(nullptr);
    expect_device_sums(grown, ranks + 1);
    EXPECT_EQ(tuttiCommDestroy(grown), tuttiSuccess);
  });
  processes.expect_success();
}

INSTANTIATE_TEST_SUITE_P(Of, DeviceShrinks,
                         ::testing::Values(ShrinkLayout{"four_processes", 4, 1, 4},
                                           ShrinkLayout{"two_processes", 2, 2, 2}, ShrinkLayout{"two_hosts", 4, 1, 2}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tutti::test

// Device buffers of ranks in several processes: what is exact, what is refused and why, and what becomes of the others
// when a process is killed or stopped.
// Covers comm/device/device_group.cc, comm/device/host_exchange.cc, comm/failure/kernel_monitor.cc,
// executor/host_gather.cc, transport/rank_exchange.cc, transport/device/deferred_frees.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "cases/collective_cases.h"
#include "cases/effort_of.h"
#include "support/device/device_floats.h"
#include "support/device/device_processes.h"
#include "support/texts.h"

namespace tutti::test {
namespace {

struct NamedLayout {
  const char* name;
  DeviceLayout layout;
};

class DeviceProcessesAre : public ::testing::TestWithParam<NamedLayout> {};

TEST_P(DeviceProcessesAre, Exact) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "cuda");
  DeviceLayout layout = GetParam().layout;
  layout.before = [](int) { stand_in().take_all_memory(true); };
  const int ranks = layout.ranks();
  DeviceProcesses processes(layout, [ranks](tuttiComm_t comm, int rank, Shared& shared) {
    ASSERT_NE(comm, nullptr) << shared.text[rank];
    const std::size_t launches = stand_in().launches();
    const cases::Outcome reductions =
        cases::run_collective_cases(comm, rank, ranks, cases::sample_of(cases::Effort::kFew));
    EXPECT_GT(reductions.checked, 0);
    EXPECT_EQ(reductions.failed, 0) << "of " << reductions.checked;
    const cases::Outcome moves = cases::run_exchange_cases(comm, rank, ranks, cases::sample_of(cases::Effort::kFew));
    EXPECT_GT(moves.checked, 0);
    EXPECT_EQ(moves.failed, 0) << "of " << moves.checked;
    EXPECT_GT(stand_in().launches(), launches);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
  processes.expect_success();
}

INSTANTIATE_TEST_SUITE_P(Layouts, DeviceProcessesAre,
                         ::testing::Values(NamedLayout{"TwoOfOne", {2, 1, 1}}, NamedLayout{"ThreeOfOne", {3, 1, 1}},
                                           NamedLayout{"FourOfOne", {4, 1, 1}}, NamedLayout{"TwoOfTwo", {2, 2, 2}},
                                           NamedLayout{"TwoOfTwoOnOneGpuEach", {2, 2, 1}},
                                           NamedLayout{"ThreeOfTwoInTurn", {3, 2, 2, false, true}},
                                           NamedLayout{"FourOfTwo", {4, 2, 1}}),
                         [](const auto& info) { return info.param.name; });

// The third communicator of the processes is as good as the first, and its calls may be on CUDA streams.
TEST(DeviceProcessCalls, OnStreamsAndAgainAndAgain) {
  DeviceProcesses processes({2, 2, 2}, [](tuttiComm_t first, int rank, Shared& shared) {
    ASSERT_NE(first, nullptr) << shared.text[rank];
    for (int round = 0; round < 3; ++round) {
      tuttiComm_t comm = nullptr;
      ASSERT_EQ(tuttiCommSplit(first, 0, rank, &comm, nullptr), tuttiSuccess) << tuttiGetLastError(first);
      DeviceFloats data(30'000);
      tuttiStream_t stream = nullptr;
      DeviceDriver::Stream cuda = nullptr;
      ASSERT_TRUE(stand_in().create_caller_stream(stand_in().current_device(), &cuda).ok());
      ASSERT_EQ(tuttiStreamFromCuda(&stream, cuda), tuttiSuccess);
      for (int call = 0; call < 4; ++call) EXPECT_EQ(data.reduce(comm, stream), tuttiSuccess);
      EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiSuccess) << tuttiGetLastError(comm);
      EXPECT_TRUE(data.is(256.0f));
      EXPECT_EQ(data.reduce(comm), tuttiSuccess) << tuttiGetLastError(comm);
      EXPECT_TRUE(data.is(1024.0f));
      EXPECT_EQ(data.reduce(comm, stream), tuttiSuccess);  // Finalize waits for it, and for the others'
      EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
      EXPECT_TRUE(data.is(4096.0f));
      EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
      ASSERT_TRUE(stand_in().destroy_stream(cuda).ok());
    }
    EXPECT_EQ(tuttiCommDestroy(first), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
  processes.expect_success();
}

// Blocking calls go through host memory there; on a stream, the wait would hold up the copies that end it.
TEST(DeviceProcessCalls, StreamsOfOneHardwareQueueDoNotWaitForHostMemory) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  DeviceLayout layout{2, 1, 1, true};
  layout.before = [](int) { stand_in().set_connections(1); };
  DeviceProcesses processes(layout, [](tuttiComm_t comm, int rank, Shared& shared) {
    ASSERT_NE(comm, nullptr) << shared.text[rank];
    DeviceFloats data(1000);
    tuttiStream_t stream = nullptr;
    DeviceDriver::Stream cuda = nullptr;
    ASSERT_TRUE(stand_in().create_caller_stream(0, &cuda).ok());
    ASSERT_EQ(tuttiStreamFromCuda(&stream, cuda), tuttiSuccess);
    EXPECT_EQ(data.reduce(comm, stream), tuttiUnsupported);
    EXPECT_TRUE(contains(tuttiGetLastError(comm), "CUDA_DEVICE_MAX_CONNECTIONS=1")) << tuttiGetLastError(comm);
    EXPECT_EQ(data.reduce(comm), tuttiSuccess) << tuttiGetLastError(comm);
    EXPECT_TRUE(data.is(2.0f));
    EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    ASSERT_TRUE(stand_in().destroy_stream(cuda).ok());
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
  processes.expect_success();
}

TEST(DeviceProcessCalls, OneGpuServesTwoProcessesUnderMps) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "cuda");
  DeviceLayout layout{2, 2, 1};
  layout.same_gpus = true;
  layout.before = [](int) { stand_in().set_mps(true); };
  DeviceProcesses processes(layout, [](tuttiComm_t comm, int rank, Shared& shared) {
    ASSERT_NE(comm, nullptr) << shared.text[rank];
    DeviceFloats data(100'000);
    EXPECT_EQ(data.reduce(comm), tuttiSuccess) << tuttiGetLastError(comm);
    EXPECT_TRUE(data.is(4.0f));
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
  processes.expect_success();
}

// Memory that another process may still have mapped is not released under its kernels, and not kept for ever either.
TEST(DeviceProcessCalls, ExportedMemoryIsReleasedOnceTheOthersHaveClosedIt) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  DeviceProcesses processes({2, 1, 1}, [](tuttiComm_t comm, int rank, Shared& shared) {
    ASSERT_NE(comm, nullptr) << shared.text[rank];
    DeviceFloats data(1000);
    EXPECT_EQ(data.reduce(comm), tuttiSuccess) << tuttiGetLastError(comm);
    shared.step[rank] = 1;
    shared.wait_for_step(1 - rank, 1);
    if (rank == 1) {
      shared.wait_for_step(0, 2);  // the other has given up, this one still has its memory mapped
      EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
      shared.step[1] = 2;
      shared.wait_for_step(0, 3);
      return;
    }
    EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
    EXPECT_EQ(stand_in().allocations(), 2u) << "data and arena";
    shared.step[0] = 2;
    shared.wait_for_step(1, 2);
    tuttiComm_t next = nullptr;  // looks after what is left
    EXPECT_EQ(tuttiCommInitAll(&next, 1, nullptr), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(next), tuttiSuccess);
    EXPECT_EQ(stand_in().allocations(), 1u);
    shared.step[0] = 3;
  });
  processes.expect_success();
}

// What is left of a device is known to its process only: blocks that one process lacks no rank uses.
TEST(DeviceProcessCalls, RanksHaveAsManyBlocksAsTheMostCrowdedOneMayHave) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const ScopedSetting transport("TUTTI_TRANSPORT", "cuda");
  DeviceLayout layout{2, 1, 1};
  layout.before = [](int process) {
    static tuttiComm_t others[3];
    const int devices[3] = {0, 0, 0};
    if (process == 1) {
      EXPECT_EQ(tuttiCommInitAll(others, 3, devices), tuttiSuccess) << tuttiGetLastError(nullptr);
    }
  };
  DeviceProcesses processes(layout, [](tuttiComm_t comm, int rank, Shared& shared) {
    ASSERT_NE(comm, nullptr) << shared.text[rank];
    DeviceFloats data(300'000);
    EXPECT_EQ(data.reduce(comm), tuttiSuccess) << tuttiGetLastError(comm);
    EXPECT_TRUE(data.is(2.0f));
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
  processes.expect_success();
}

struct Refusal {
  const char* name;
  std::function<void(int process)> before;
  bool same_gpus;
  const char* reason;
};

class DeviceRefusal : public ::testing::TestWithParam<Refusal> {
 protected:
  static DeviceLayout layout() {
    DeviceLayout layout{3, 1, 1};
    layout.same_gpus = GetParam().same_gpus;
    layout.before = GetParam().before;
    return layout;
  }
};

// No rank's calls are kernels then; device buffers go through host memory.
TEST_P(DeviceRefusal, LeavesTheWayThroughHostMemory) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  DeviceProcesses processes(layout(), [](tuttiComm_t comm, int rank, Shared& shared) {
    ASSERT_NE(comm, nullptr) << shared.text[rank];
    std::vector<float> host(10, 1.0f);
    EXPECT_EQ(tuttiAllReduce(host.data(), host.data(), 10, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
    EXPECT_EQ(host, std::vector<float>(10, 3.0f));
    DeviceFloats data(10);
    const std::size_t launches = stand_in().launches();
    EXPECT_EQ(data.reduce(comm), tuttiSuccess) << tuttiGetLastError(comm);
    EXPECT_TRUE(data.is(3.0f));
    EXPECT_EQ(stand_in().launches(), launches);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
  processes.expect_success();
}

TEST_P(DeviceRefusal, FailsAJoinThatAskedForDevices) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const ScopedSetting transport("TUTTI_TRANSPORT", "cuda");
  DeviceProcesses processes(layout(), [](tuttiComm_t comm, int, Shared&) { EXPECT_EQ(comm, nullptr); });
  processes.expect_success();
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_NE(processes.shared().result[rank], tuttiSuccess);
    EXPECT_TRUE(contains(processes.text(rank), "TUTTI_TRANSPORT=cuda: ")) << processes.text(rank);
    EXPECT_TRUE(contains(processes.text(rank), GetParam().reason)) << processes.text(rank);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Reasons, DeviceRefusal,
    ::testing::Values(Refusal{"OneGpuWithoutMps", [](int) {}, true, "ranks 0 and 1 use one GPU from two processes"},
                      Refusal{"MpsInSomeProcesses", [](int process) { stand_in().set_mps(process != 2); }, true,
                              "ranks 0 and 2 use one GPU from two processes"},
                      Refusal{"AnExport",
                              [](int process) {
                                if (process == 1) stand_in().fail_next("export_memory", "not supported here");
                              },
                              false, "export_memory: not supported here (found by rank 1)"},
                      Refusal{"AMapping",
                              [](int process) {
                                if (process == 2) stand_in().fail_next("open_memory", "no path");
                              },
                              false, "open_memory: no path (found by rank 2)"},
                      Refusal{"WrongData", [](int process) { stand_in().damage_results(process == 1); }, false,
                              "did not arrive (found by rank 1)"}),
    [](const auto& info) { return info.param.name; });

TEST(DeviceProcessJoin, ARankWithoutADeviceIsWaitedForByNobody) {
  DeviceLayout layout{2, 1, 1};
  layout.before = [](int process) { stand_in().set_devices(process == 0 ? 1 : 0); };
  DeviceProcesses processes(layout, [](tuttiComm_t comm, int rank, Shared& shared) {
    ASSERT_NE(comm, nullptr) << shared.text[rank];
    std::vector<float> host(10, 1.0f);
    if (rank == 0) {
      DeviceFloats data(10);
      EXPECT_EQ(data.reduce(comm), tuttiSuccess) << tuttiGetLastError(comm);
      EXPECT_TRUE(data.is(2.0f));
    } else {
      EXPECT_EQ(tuttiAllReduce(host.data(), host.data(), 10, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
      EXPECT_EQ(host, std::vector<float>(10, 2.0f));
    }
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
  processes.expect_success();
}

/// Where in the join a process ends: the call of the driver.
class DeathInJoin : public ::testing::TestWithParam<const char*> {};

TEST_P(DeathInJoin, IsNamedByAll) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  DeviceLayout layout{3, 1, 1};
  layout.before = [](int process) {
    if (process == 1) stand_in().before_each(GetParam(), [] { ::kill(::getpid(), SIGKILL); });
  };
  DeviceProcesses processes(layout, [](tuttiComm_t comm, int, Shared&) { EXPECT_EQ(comm, nullptr); });
  EXPECT_EQ(processes.wait(1), SIGKILL);
  for (const int rank : {0, 2}) {
    EXPECT_EQ(processes.wait(rank), 0);
    EXPECT_EQ(processes.shared().result[rank], tuttiRemoteError) << processes.text(rank);
    EXPECT_TRUE(contains(processes.text(rank), "rank 1 (")) << processes.text(rank);
    EXPECT_TRUE(contains(processes.text(rank), "died")) << processes.text(rank);
  }
}
INSTANTIATE_TEST_SUITE_P(Calls, DeathInJoin, ::testing::Values("allocate", "open_memory", "create_stream", "launch"));

TEST(TimedDeviceProcessJoin, AStoppedProcessIsNamedAtTheDeadline) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  DeviceLayout layout{3, 1, 1};
  layout.join_timeout = 5;
  layout.before = [](int process) {
    static std::once_flag is_stopped;
    if (process == 2)
      stand_in().before_each("allocate", [] { std::call_once(is_stopped, ::kill, ::getpid(), SIGSTOP); });
  };
  // A signal may take a while to stop a process: it then misses less of the join, but never its failure.
  DeviceProcesses processes(layout, [](tuttiComm_t comm, int rank, Shared& shared) {
    if (comm == nullptr) return;
    EXPECT_EQ(rank, 2);
    shared.report(rank, tuttiBarrier(comm, nullptr), tuttiGetLastError(comm));
    (void)tuttiCommAbort(comm);
  });
  for (const int rank : {0, 1}) {
    EXPECT_EQ(processes.wait(rank), 0);
    EXPECT_EQ(processes.shared().result[rank], tuttiTimeout) << processes.text(rank);
    EXPECT_TRUE(contains(processes.text(rank), "rank 2 (")) << processes.text(rank);
  }
  processes.signal(2, SIGCONT);
  EXPECT_EQ(processes.wait(2), 0) << "it is told when it goes on";
  EXPECT_NE(processes.shared().result[2], tuttiSuccess);
}

struct Kill {
  DeviceLayout layout;
  int victim;  // a process
  std::size_t count;
  bool streams;
};
class DeviceKill : public ::testing::TestWithParam<Kill> {};

// Kernels of the others wait for it: they are stopped, and all say who died.
TEST_P(DeviceKill, InMidKernelIsNamedByAll) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const auto [layout, victim, count, streams] = GetParam();
  DeviceProcesses processes(layout, [count = count, streams = streams](tuttiComm_t comm, int rank, Shared& shared) {
    reduce_until_failure(comm, rank, shared, count, streams);
  });
  for (int rank = 0; rank < layout.ranks(); ++rank) processes.shared().wait_for_step(rank, 3);
  processes.signal(victim, SIGKILL);
  for (int process = 0; process < layout.processes; ++process)
    EXPECT_EQ(processes.wait(process), process == victim ? SIGKILL : 0) << process;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    if (layout.process_of(rank) == victim) continue;
    EXPECT_EQ(processes.shared().result[rank], tuttiRemoteError) << processes.text(rank);
    const std::string text = processes.text(rank);
    bool named = false;
    for (int dead = 0; dead < layout.ranks(); ++dead)
      named = named || (layout.process_of(dead) == victim && contains(text, "rank " + std::to_string(dead) + " ("));
    EXPECT_TRUE(named) << text;
    EXPECT_TRUE(contains(text, "died")) << text;
  }
}
INSTANTIATE_TEST_SUITE_P(Rounds, DeviceKill,
                         ::testing::Values(Kill{{2, 1, 1}, 1, 1, false}, Kill{{3, 1, 1}, 0, 1000, false},
                                           Kill{{3, 1, 1}, 2, 200'000, false}, Kill{{2, 2, 2}, 1, 1000, true},
                                           Kill{{4, 1, 1}, 2, 1000, true}));

TEST(TimedDeviceStop, AStoppedProcessIsNamedAtTheTimeout) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const ScopedSetting timeout("TUTTI_TIMEOUT", "4");
  DeviceProcesses processes({3, 1, 1}, [](tuttiComm_t comm, int rank, Shared& shared) {
    reduce_until_failure(comm, rank, shared, 1000, true);
  });
  for (int rank = 0; rank < 3; ++rank) processes.shared().wait_for_step(rank, 3);
  stop_process(processes.pid(2));
  for (const int rank : {0, 1}) {
    EXPECT_EQ(processes.wait(rank), 0);
    EXPECT_EQ(processes.shared().result[rank], tuttiTimeout) << processes.text(rank);
    EXPECT_TRUE(contains(processes.text(rank), "rank 2 ")) << processes.text(rank);
  }
  processes.signal(2, SIGCONT);
  EXPECT_EQ(processes.wait(2), 0) << "it is told when it goes on";
  EXPECT_NE(processes.shared().result[2], tuttiSuccess);
}

}  // namespace
}  // namespace tutti::test

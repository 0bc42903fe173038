// Calls on device memory through the C API: which buffers go together, what happens when the device fails, streams,
// groups in one thread, ranks that do not come.
// Covers comm/device/device_side.cc, comm/device_calls.cc, executor/device/device_executor.cc,
// executor/device/device_probe.cc, transport/device/device_allocation.cc, device/device_event.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/device/caller_stream.h"
#include "support/device/device_vector.h"
#include "support/ranks.h"
#include "support/texts.h"

namespace tutti::test {
namespace {

class DeviceCalls : public ::testing::Test {
 protected:
  void SetUp() override { stand_in().set_devices(2); }
  void TearDown() override {
    stand_in().set_devices(1);
    stand_in().cut_peers(false);
    if (std::chrono::steady_clock::now() - began_ < patience_) {
      EXPECT_EQ(stand_in().allocations(), before_);
    }
  }
  /// What ends while kernels run does not wait longer than this for them, and then leaves its memory behind.
  void wait_at_most(std::chrono::milliseconds patience) { patience_ = patience; }

 private:
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  const std::size_t before_ = stand_in().allocations();
  std::chrono::milliseconds patience_ = std::chrono::hours(1);
};

TEST_F(DeviceCalls, MixedOrForeignBuffersAreRefusedAndTheCommunicatorGoesOn) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "cuda");
  run_threads(2, [](tuttiComm_t comm, int rank) {
    DeviceVector mine(100, 1.0f, rank % 2), foreign(100, 1.0f, (rank + 1) % 2);
    std::vector<float> host(100);
    const auto reduce = [&](const float* send, float* recv) {
      return tuttiAllReduce(send, recv, 100, tuttiFloat32, tuttiSum, comm, nullptr);
    };
    EXPECT_EQ(reduce(mine.data(), host.data()), tuttiInvalidArgument);
    EXPECT_TRUE(contains(last_error(comm), "sendbuff is device memory and recvbuff host memory")) << last_error(comm);
    EXPECT_EQ(reduce(foreign.data(), foreign.data()), tuttiInvalidArgument);
    EXPECT_TRUE(contains(last_error(comm), "uses device " + std::to_string(rank % 2))) << last_error(comm);
    EXPECT_EQ(reduce(mine.data(), mine.data()), tuttiSuccess);
    EXPECT_TRUE(mine.is(2.0f));
    std::fill(host.begin(), host.end(), 3.0f);
    EXPECT_EQ(reduce(host.data(), host.data()), tuttiSuccess);  // host memory goes the other way
    EXPECT_EQ(host, std::vector<float>(100, 6.0f));
    EXPECT_EQ(tuttiSend(mine.data(), 1, tuttiFloat32, 0, comm, nullptr), tuttiUnsupported);
    uint64_t bytes = 0;
    EXPECT_EQ(tuttiCommMemStats(comm, tuttiMemStatDevice, &bytes), tuttiSuccess);
    EXPECT_GT(bytes, 0u);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << last_error();
  });
}

TEST_F(DeviceCalls, OneThreadServesManyRanksInAGroup) {
  constexpr int kRanks = 4;
  const int devices[kRanks] = {0, 0, 1, 1};
  tuttiComm_t comms[kRanks];
  ASSERT_EQ(tuttiCommInitAll(comms, kRanks, devices), tuttiSuccess) << last_error();
  {
    std::vector<std::unique_ptr<DeviceVector>> data;
    for (int rank = 0; rank < kRanks; ++rank)
      data.push_back(std::make_unique<DeviceVector>(70'001, static_cast<float>(rank), devices[rank]));
    for (int round = 0; round < 3; ++round) {
      ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
      for (std::size_t rank = 0; rank < kRanks; ++rank)
        EXPECT_EQ(tuttiAllReduce(data[rank]->data(), data[rank]->data(), 70'001, tuttiFloat32, tuttiMax, comms[rank],
                                 nullptr),
                  tuttiSuccess);
      EXPECT_EQ(tuttiGroupEnd(), tuttiSuccess) << last_error();
    }
    for (const auto& vector : data) EXPECT_TRUE(vector->is(3.0f));
  }
  std::vector<std::thread> ends;
  for (const tuttiComm_t comm : comms) ends.emplace_back([comm] { EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess); });
  for (std::thread& end : ends) end.join();
}

// What a stream takes at once stands after what only the end of the group drives, of every rank of the thread.
TEST_F(DeviceCalls, AGroupHasCallsOnStreamsBehindCallsThatEndWithIt) {
  constexpr int kRanks = 3;
  const int devices[kRanks] = {0, 1, 1};
  tuttiComm_t comms[kRanks];
  ASSERT_EQ(tuttiCommInitAll(comms, kRanks, devices), tuttiSuccess) << last_error();
  {
    std::vector<std::vector<float>> host(kRanks, std::vector<float>(100, 1.0f));
    std::vector<std::unique_ptr<DeviceVector>> data;
    std::vector<std::unique_ptr<CallerStream>> streams;
    for (const int device : devices) {
      data.push_back(std::make_unique<DeviceVector>(100, 1.0f, device));
      streams.push_back(std::make_unique<CallerStream>(device));
    }
    ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      const auto reduce = [&](float* buffer, tuttiStream_t stream) {
        EXPECT_EQ(tuttiAllReduce(buffer, buffer, 100, tuttiFloat32, tuttiSum, comms[rank], stream), tuttiSuccess);
      };
      reduce(host[rank].data(), nullptr);
      reduce(data[rank]->data(), streams[rank]->get());
      reduce(data[rank]->data(), nullptr);
      reduce(host[rank].data(), nullptr);
      reduce(data[rank]->data(), streams[rank]->get());
    }
    EXPECT_EQ(tuttiGroupEnd(), tuttiSuccess) << last_error();
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      streams[rank]->drain();
      EXPECT_EQ(host[rank], std::vector<float>(100, 9.0f));
      EXPECT_TRUE(data[rank]->is(27.0f));
    }
  }
  std::vector<std::thread> ends;
  for (const tuttiComm_t comm : comms) ends.emplace_back([comm] { EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess); });
  for (std::thread& end : ends) end.join();
}

// A peer's kernel may wait for this rank's, which a call must not wait for then: memory for blocks under way is found
// beside.
TEST_F(DeviceCalls, NoCallWaitsForKernels) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "cuda");
  const ScopedSetting algorithm("TUTTI_ALGO", "bruck");
  const ScopedSetting quiet("TUTTI_LOG", "error");  // other collectives have no such algorithm
  constexpr int kRanks = 4;
  constexpr std::size_t kCount = 3000;
  Meeting callers(kRanks);
  run_threads(kRanks, [&](tuttiComm_t comm, int rank) {
    DeviceVector in(kRanks * kCount, static_cast<float>(rank), rank % 2), out(kRanks * kCount, -1.0f, rank % 2);
    callers.arrive_and_wait();
    const std::size_t waits = stand_in().waits_for_kernels(), allocations = stand_in().allocations();
    EXPECT_EQ(tuttiAllToAll(in.data(), out.data(), kCount, tuttiFloat32, comm, nullptr), tuttiSuccess);
    EXPECT_EQ(stand_in().waits_for_kernels(), waits);
    EXPECT_GT(stand_in().allocations(), allocations);  // it needed some
    callers.arrive_and_wait();
    EXPECT_EQ(out.data()[kCount], 1.0f);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << last_error();
  });
}

// In processes of their own: a communicator whose abort takes longer than 50 ms to be noticed is kept until the exit,
// and so is the id of tuttiCommInitAll where that refuses its list; both keep the hub.
class AloneDeviceCalls : public DeviceCalls {};

TEST_F(AloneDeviceCalls, DevlistIsChecked) {
  const int devices[2] = {0, 7};
  tuttiComm_t comms[2];
  EXPECT_EQ(tuttiCommInitAll(comms, 2, devices), tuttiInvalidArgument);
  EXPECT_TRUE(contains(last_error(), "devlist[1] is 7")) << last_error();
  void* memory = nullptr;
  EXPECT_EQ(tuttiMemAllocDevice(&memory, 10, 2), tuttiInvalidArgument);
}

// Calls on a CUDA stream follow what was put there before, and return at once.
TEST_F(DeviceCalls, StreamsKeepTheirOrder) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "cuda");
  std::atomic<int> reached{0};
  run_threads(2, [&](tuttiComm_t comm, int rank) {
    DeviceDriver::Stream cuda = nullptr, second = nullptr;
    ASSERT_TRUE(stand_in().create_caller_stream(rank, &cuda).ok());
    ASSERT_TRUE(stand_in().create_caller_stream(rank, &second).ok());
    tuttiStream_t stream = nullptr, other = nullptr;
    ASSERT_EQ(tuttiStreamFromCuda(&stream, cuda), tuttiSuccess) << last_error();
    ASSERT_EQ(tuttiStreamFromCuda(&other, second), tuttiSuccess) << last_error();
    DeviceVector data(5000, 0.0f, rank);
    std::atomic<bool> go{false};
    float* const values = data.data();
    StandInDriver::put(cuda, [&go, values] {
      await([&] { return go.load(); }, "the word to go on");
      std::fill_n(values, 5000, 1.0f);
    });
    EXPECT_EQ(tuttiAllReduce(values, values, 5000, tuttiFloat32, tuttiSum, comm, stream), tuttiSuccess);
    EXPECT_EQ(tuttiAllReduce(values, values, 5000, tuttiFloat32, tuttiSum, comm, other), tuttiSuccess);  // after it
    EXPECT_EQ(tuttiStreamQuery(stream), tuttiInProgress);
    std::atomic<tuttiResult_t> seen{tuttiInProgress};
    EXPECT_EQ(
        tuttiStreamAddCallback(
            other, [](tuttiResult_t result, void* user) { *static_cast<std::atomic<tuttiResult_t>*>(user) = result; },
            &seen),
        tuttiSuccess);
    EXPECT_EQ(seen.load(), tuttiInProgress);
    go.store(true);
    EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiSuccess) << last_error();
    EXPECT_EQ(tuttiStreamSynchronize(other), tuttiSuccess) << last_error();
    EXPECT_TRUE(data.is(4.0f));
    EXPECT_EQ(seen.load(), tuttiSuccess);
    EXPECT_EQ(tuttiBarrier(comm, stream), tuttiSuccess);
    std::vector<float> host(10);
    EXPECT_EQ(tuttiBroadcast(host.data(), host.data(), 10, tuttiFloat32, 0, comm, nullptr), tuttiSuccess);
    EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    EXPECT_EQ(tuttiStreamDestroy(other), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << last_error();
    ++reached;
    ASSERT_TRUE(stand_in().destroy_stream(cuda).ok());
    ASSERT_TRUE(stand_in().destroy_stream(second).ok());
  });
  EXPECT_EQ(reached.load(), 2);
}

// Whatever the streams and the kinds of memory, a blocking call comes after all calls before it.
TEST_F(DeviceCalls, ABlockingCallOnHostMemoryWaitsForCallsOnStreams) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "cuda");
  run_threads(2, [](tuttiComm_t comm, int rank) {
    DeviceDriver::Stream cuda = nullptr;
    ASSERT_TRUE(stand_in().create_caller_stream(rank, &cuda).ok());
    tuttiStream_t stream = nullptr;
    ASSERT_EQ(tuttiStreamFromCuda(&stream, cuda), tuttiSuccess) << last_error();
    DeviceVector data(5000, 1.0f, rank);
    std::vector<float> host(10);
    const auto broadcast = [&] { return tuttiBroadcast(host.data(), host.data(), 10, tuttiFloat32, 0, comm, nullptr); };
    for (const bool grouped : {false, true}) {
      std::atomic<bool> go{false};
      StandInDriver::put(cuda, [&go] { await([&] { return go.load(); }, "the word to go on"); });
      EXPECT_EQ(tuttiAllReduce(data.data(), data.data(), 5000, tuttiFloat32, tuttiSum, comm, stream), tuttiSuccess);
      std::thread later([&go] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        go.store(true);
      });
      if (grouped) {
        EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
      }
      EXPECT_EQ(broadcast(), tuttiSuccess);
      if (grouped) {
        EXPECT_EQ(tuttiGroupEnd(), tuttiSuccess);
      }
      EXPECT_TRUE(go.load()) << "grouped " << grouped;
      EXPECT_TRUE(data.is(grouped ? 4.0f : 2.0f)) << "grouped " << grouped;
      later.join();
    }
    EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << last_error();
    ASSERT_TRUE(stand_in().destroy_stream(cuda).ok());
  });
}

// What stands in a CUDA stream before a call may never end; the calls after it are aborted all the same.
TEST_F(AloneDeviceCalls, AnAbortEndsTheWaitForACallThatHasNotBegun) {
  wait_at_most(std::chrono::milliseconds(50));
  const ScopedSetting transport("TUTTI_TRANSPORT", "cuda");
  const ScopedSetting quiet("TUTTI_LOG", "error");
  std::atomic<bool> over{false};
  run_threads(2, [&](tuttiComm_t comm, int rank) {
    if (rank == 1) {
      await([&] { return over.load(); }, "the end of the test");
      (void)tuttiCommDestroy(comm);
      return;
    }
    DeviceDriver::Stream cuda = nullptr;
    ASSERT_TRUE(stand_in().create_caller_stream(rank, &cuda).ok());
    tuttiStream_t stream = nullptr;
    ASSERT_EQ(tuttiStreamFromCuda(&stream, cuda), tuttiSuccess) << last_error();
    DeviceVector data(100, 1.0f, rank);
    StandInDriver::put(cuda, [&over] { await([&] { return over.load(); }, "the end of the test"); });
    EXPECT_EQ(tuttiAllReduce(data.data(), data.data(), 100, tuttiFloat32, tuttiSum, comm, stream), tuttiSuccess);
    std::thread aborter([comm] {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));  // in the call by then, most likely
      EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
    });
    std::vector<float> host(1);
    // Aborted in the call, or, on a slow machine, before it.
    const tuttiResult_t result = tuttiBroadcast(host.data(), host.data(), 1, tuttiFloat32, 0, comm, nullptr);
    EXPECT_TRUE(result == tuttiAborted || result == tuttiInvalidUsage) << result;
    aborter.join();
    over.store(true);
    (void)tuttiStreamDestroy(stream);
    ASSERT_TRUE(stand_in().destroy_stream(cuda).ok());
  });
}

TEST_F(DeviceCalls, ARankThatDoesNotComeIsNamedAtTheTimeout) {
  wait_at_most(std::chrono::seconds(3 + 2));  // the timeout first
  const ScopedSetting transport("TUTTI_TRANSPORT", "cuda");
  const ScopedSetting quiet("TUTTI_LOG", "error");
  Meeting callers(2);
  std::atomic<int> failed{0};
  run_threads(3, [&](tuttiComm_t comm, int rank) {
    DeviceVector data(100, 1.0f, rank % 2);
    EXPECT_EQ(tuttiCommSetTimeout(comm, 3), tuttiSuccess);
    tuttiStream_t stream = nullptr;  // rank 1 calls on a stream, where only the kernel has a clock
    if (rank == 1) {
      ASSERT_EQ(tuttiStreamFromCuda(&stream, nullptr), tuttiSuccess);
    }
    if (rank != 2) {
      // Both call within a timeout of each other.
      callers.arrive_and_wait();
      tuttiResult_t result = tuttiAllReduce(data.data(), data.data(), 100, tuttiFloat32, tuttiSum, comm, stream);
      if (rank == 1) result = tuttiStreamSynchronize(stream);
      EXPECT_NE(result, tuttiSuccess);
      EXPECT_TRUE(contains(last_error(comm), "rank 2")) << last_error(comm);
      ++failed;
    }
    await([&] { return failed.load() >= 2; }, "the failures of the others");
    if (stream != nullptr) {
      EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    }
    EXPECT_NE(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

TEST_F(DeviceCalls, ADifferentCallIsAMismatch) {
  wait_at_most(std::chrono::seconds(2));
  const ScopedSetting transport("TUTTI_TRANSPORT", "cuda");
  const ScopedSetting quiet("TUTTI_LOG", "error");
  run_threads(2, [&](tuttiComm_t comm, int rank) {
    DeviceVector data(5000, 1.0f, rank);
    const std::size_t count = rank == 0 ? 100 : 5000;
    EXPECT_EQ(tuttiAllReduce(data.data(), data.data(), count, tuttiFloat32, tuttiSum, comm, nullptr), tuttiMismatch);
    EXPECT_TRUE(contains(last_error(comm), "rank 0") && contains(last_error(comm), "rank 1")) << last_error(comm);
    EXPECT_NE(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

TEST_F(AloneDeviceCalls, AnAbortEndsAKernelThatWaits) {
  wait_at_most(std::chrono::milliseconds(50));
  const ScopedSetting transport("TUTTI_TRANSPORT", "cuda");
  const ScopedSetting quiet("TUTTI_LOG", "error");
  std::atomic<bool> over{false};
  run_threads(2, [&](tuttiComm_t comm, int rank) {
    DeviceVector data(100, 1.0f, rank);
    if (rank == 1) {
      await([&] { return over.load(); }, "the end of the test");
      (void)tuttiCommDestroy(comm);
      return;
    }
    const std::size_t launches = stand_in().launches();
    std::thread aborter([comm, launches] {
      await([&] { return stand_in().launches() != launches; }, "a launch");
      EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
    });
    EXPECT_EQ(tuttiAllReduce(data.data(), data.data(), 100, tuttiFloat32, tuttiSum, comm, nullptr), tuttiAborted);
    aborter.join();
    over.store(true);
  });
}

class DeviceFailures : public DeviceCalls, public ::testing::WithParamInterface<const char*> {};

// Of a call: the rank whose device fails says what the runtime said, the other hears of it. Rank 1 is in the call when
// its next look, or the launch of rank 0, fails.
TEST_P(DeviceFailures, InACallAreErrorsOfAllRanks) {
  wait_at_most(std::chrono::seconds(2));
  const ScopedSetting transport("TUTTI_TRANSPORT", "cuda");
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const std::string function = GetParam();
  Meeting callers(2);
  std::atomic<bool> failed{false};
  run_threads(2, [&](tuttiComm_t comm, int rank) {
    DeviceVector data(100, 1.0f, rank);
    std::vector<float> host(1);
    EXPECT_EQ(tuttiAllReduce(host.data(), host.data(), 1, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
    const std::size_t launches = stand_in().launches();
    callers.arrive_and_wait();
    if (rank == 0) {
      await([&] { return stand_in().launches() != launches; }, "a launch");
      stand_in().fail_next(function, "unspecified launch failure");
      // Until rank 0 has heard of it, its call meets what rank 1 launched, and may well succeed.
      const auto has_heard = [&] {
        tuttiResult_t state = tuttiSuccess;
        return failed.load() && tuttiCommGetAsyncError(comm, &state) == tuttiSuccess && state != tuttiSuccess;
      };
      if (function == "query") await(has_heard, "that rank 0 hears of the failure of rank 1");
    }
    const tuttiResult_t result = tuttiAllReduce(data.data(), data.data(), 100, tuttiFloat32, tuttiSum, comm, nullptr);
    if (rank == 1) failed.store(true);
    EXPECT_EQ(result, tuttiUnhandledCudaError);
    EXPECT_TRUE(contains(last_error(comm), "unspecified launch failure")) << last_error(comm);
    EXPECT_NE(tuttiCommDestroy(comm), tuttiSuccess);
  });
}
INSTANTIATE_TEST_SUITE_P(Functions, DeviceFailures, ::testing::Values("launch", "query"));

// Of a join: no rank offers device buffers then, host buffers go on; where the device was asked for, the join fails.
TEST_F(DeviceCalls, WithoutPeerAccessBuffersGoThroughHostMemoryUnlessForbidden) {
  stand_in().cut_peers(true);
  const ScopedSetting quiet("TUTTI_LOG", "error");
  tuttiComm_t offered[2];
  ASSERT_EQ(tuttiCommInitAll(offered, 2, nullptr), tuttiSuccess) << last_error();
  std::vector<std::thread> ranks;
  for (const int rank : {0, 1}) {
    ranks.emplace_back([comm = offered[rank], rank] {
      std::vector<float> host(10, 1.0f);
      EXPECT_EQ(tuttiAllReduce(host.data(), host.data(), 10, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
      DeviceVector data(10, 1.0f, rank);
      EXPECT_EQ(tuttiAllReduce(data.data(), data.data(), 10, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
      EXPECT_TRUE(data.is(2.0f));
      EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  const ScopedSetting transport("TUTTI_TRANSPORT", "cuda");
  tuttiComm_t comms[2];
  EXPECT_EQ(tuttiCommInitAll(comms, 2, nullptr), tuttiUnsupported);
  EXPECT_TRUE(contains(last_error(), "cannot reach device")) << last_error();
}

// The data check of the join: nothing is offered on links that do not carry what is written.
TEST_F(DeviceCalls, LinksThatCarryNothingAreFoundAtTheJoin) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "cuda");
  const ScopedSetting quiet("TUTTI_LOG", "error");
  stand_in().skip_kernels(true);
  tuttiComm_t comms[2];
  const tuttiResult_t result = tuttiCommInitAll(comms, 2, nullptr);
  stand_in().skip_kernels(false);
  EXPECT_NE(result, tuttiSuccess);
  EXPECT_TRUE(contains(last_error(), "did not arrive")) << last_error();
}

TEST_F(DeviceCalls, MoreRanksThanRunSideBySideAreRefused) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "cuda");
  const ScopedSetting quiet("TUTTI_LOG", "error");
  stand_in().set_devices(1);
  stand_in().set_connections(8);
  tuttiComm_t comms[9];
  EXPECT_EQ(tuttiCommInitAll(comms, 9, nullptr), tuttiUnsupported);
  EXPECT_TRUE(contains(last_error(), "9 ranks of a process share the device of rank 0")) << last_error();
  stand_in().set_connections(0);
}

TEST_F(DeviceCalls, WithoutADriverThereAreNoDevices) {
  stand_in().set_devices(0);
  void* memory = nullptr;
  EXPECT_EQ(tuttiMemAllocDevice(&memory, 10, 0), tuttiUnsupported);
  tuttiStream_t stream = nullptr;
  EXPECT_EQ(tuttiStreamFromCuda(&stream, nullptr), tuttiUnsupported);
  tuttiUniqueId id;
  ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  tuttiComm_t comm = nullptr;
  {
    const ScopedSetting transport("TUTTI_TRANSPORT", "cuda");
    EXPECT_EQ(tuttiCommInitRank(&comm, 1, id, 0), tuttiUnsupported);
  }
  ASSERT_EQ(tuttiCommInitRank(&comm, 1, id, 0), tuttiSuccess) << "the id is as good as before";
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
}

}  // namespace
}  // namespace tutti::test

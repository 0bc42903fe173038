// What calls at two levels take from what they share with others: hardware queues, memory, connections.
// Covers executor/device/two_level_stage.cc, comm/device/device_side.cc, comm/failure/wait_judge.cc.
#include <dirent.h>
#include <gtest/gtest.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "support/device/caller_stream.h"
#include "support/device/host_names.h"
#include "support/process_usage.h"

namespace tutti::test {
namespace {

/// A process a host.
DeviceLayout hosts(int processes, int ranks_each) {
  DeviceLayout layout{processes, ranks_each, 1};
  layout.before = [](int process) { name_host(process); };
  return layout;
}

/// How many streams lie, in the device's hardware queues, between those of the join and those of the calls.
class TwoLevelShifts : public ::testing::TestWithParam<int> {};

// Copies of a small call must not stand after a kernel that waits for the next call of the same rank.
TEST_P(TwoLevelShifts, HoldUpNoCopyBehindAKernelThatWaits) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const ScopedSetting timeout("TUTTI_TIMEOUT", kSanitized ? "200" : "100");
  DeviceLayout layout = hosts(2, 2);
  layout.before = [](int process) {
    name_host(process);
    stand_in().set_connections(8);
  };
  DeviceProcesses processes(layout, [shift = GetParam()](tuttiComm_t comm, int rank, Shared& shared) {
    ASSERT_NE(comm, nullptr) << shared.text[rank];
    DeviceFloats data(std::vector<float>(300'000, 0.0f)), small(std::vector<float>(100, 0.0f));
    std::vector<DeviceDriver::Stream> between(rank % 2 == 0 ? static_cast<std::size_t>(shift) : 0);
    for (DeviceDriver::Stream& stream : between) ASSERT_TRUE(stand_in().create_caller_stream(0, &stream).ok());
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
    tuttiResult_t result = tuttiSuccess;
    for (int i = 0; i < 5 && result == tuttiSuccess; ++i) {
      for (int root = 0; root < 4 && result == tuttiSuccess; ++root) {
        if (rank != root) std::this_thread::sleep_for(std::chrono::milliseconds(3));
        result = tuttiBroadcast(small.data(), small.data(), 100, tuttiFloat32, root, comm, nullptr);
        if (result == tuttiSuccess) result = data.reduce(comm);
      }
    }
    EXPECT_EQ(result, tuttiSuccess) << tuttiGetLastError(comm);
    (void)tuttiCommDestroy(comm);
    for (DeviceDriver::Stream stream : between) EXPECT_TRUE(stand_in().destroy_stream(stream).ok());
  });
  processes.expect_success();
}
INSTANTIATE_TEST_SUITE_P(Streams, TwoLevelShifts, ::testing::Range(0, kSanitized ? 4 : 8));

/// Of rank 0, on a stream of the caller's made `shift` streams after those of the join.
tuttiResult_t reduce_on_a_stream(int shift, std::string* text) {
  DeviceLayout layout{4, 1, 1};
  layout.before = [](int process) {
    name_host(process, 2);
    stand_in().set_connections(8);
  };
  DeviceProcesses processes(layout, [=](tuttiComm_t comm, int rank, Shared& shared) {
    ASSERT_NE(comm, nullptr) << shared.text[rank];
    DeviceFloats data(std::vector<float>(300'000, 0.0f));
    std::vector<DeviceDriver::Stream> between(static_cast<std::size_t>(shift));
    for (DeviceDriver::Stream& stream : between) ASSERT_TRUE(stand_in().create_caller_stream(0, &stream).ok());
    {
      CallerStream stream(stand_in().current_device());
      tuttiResult_t result = data.reduce(comm, stream.get());  // an error where others have given up before it
      if (result == tuttiSuccess) result = tuttiStreamSynchronize(stream.get());
      shared.report(rank, result, tuttiGetLastError(comm));
      stream.drain();
    }
    (void)tuttiCommDestroy(comm);
    for (DeviceDriver::Stream stream : between) EXPECT_TRUE(stand_in().destroy_stream(stream).ok());
  });
  processes.expect_success();
  *text = processes.text(0);
  return static_cast<tuttiResult_t>(processes.shared().result[0].load());
}

// Unless it is strict, the stand-in's queues know no priorities: a stream that waits for a call and shares the queue of
// its kernels keeps these from beginning. That ends, too, and what holds them up is told.
TEST(TimedTwoLevelQueues, AStreamThatHoldsUpItsOwnCallIsTold) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const ScopedSetting timeout("TUTTI_TIMEOUT", kSanitized ? "15" : "6");
  int held_up = 0;
  for (int shift = 0; shift < 8; ++shift) {
    std::string text;
    const tuttiResult_t result = reduce_on_a_stream(shift, &text);
    if (result == tuttiSuccess) continue;
    ++held_up;
    EXPECT_EQ(result, tuttiTimeout) << text;
    EXPECT_NE(text.find("has not come to its part"), std::string::npos) << text;
  }
  EXPECT_EQ(held_up, stand_in().is_strict() ? 0 : 1) << "of 8 queues";
}

// Calls of all sizes take what the join allocated, and wait for no kernel with an allocation; statistics may be asked
// for meanwhile.
TEST(TwoLevelMemory, IsThatOfTheJoin) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  DeviceProcesses processes(hosts(2, 2), [](tuttiComm_t comm, int rank, Shared& shared) {
    ASSERT_NE(comm, nullptr) << shared.text[rank];
    DeviceFloats data(std::vector<float>(600'000, 0.0f));
    CallerStream stream(stand_in().current_device());
    std::uint64_t first = 0, now = 0;
    EXPECT_EQ(tuttiCommMemStats(comm, tuttiMemStatDevice, &first), tuttiSuccess);
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
    const std::size_t allocations = stand_in().allocations(), waits = stand_in().waits_for_kernels();
    shared.step[rank] = 1;
    for (int peer = 0; peer < 4; ++peer) shared.wait_for_step(peer, 1);
    for (std::size_t count = 20'000; count < 600'000; count += 40'000) {
      EXPECT_EQ(tuttiAllReduce(data.data(), data.data(), count, tuttiFloat32, tuttiSum, comm, stream.get()),
                tuttiSuccess);
      EXPECT_EQ(tuttiCommMemStats(comm, tuttiMemStatDevice, &now), tuttiSuccess);
    }
    EXPECT_EQ(tuttiStreamSynchronize(stream.get()), tuttiSuccess) << tuttiGetLastError(comm);
    stream.drain();
    EXPECT_EQ(now, first);
    EXPECT_EQ(stand_in().allocations(), allocations);
    EXPECT_EQ(stand_in().waits_for_kernels(), waits);
    shared.step[rank] = 2;
    for (int peer = 0; peer < 4; ++peer) shared.wait_for_step(peer, 2);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
  processes.expect_success();
}

/// Descriptors of a process of eight hosts after the join.
int descriptors_after_join(const char* from) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const ScopedSetting levels("TUTTI_TWO_LEVELS", from);
  DeviceProcesses processes(hosts(8, 2), [](tuttiComm_t comm, int rank, Shared& shared) {
    ASSERT_NE(comm, nullptr) << shared.text[rank];
    shared.step[rank] = static_cast<int>(open_descriptors());
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
  processes.expect_success();
  return processes.shared().step[0];
}

// The join opens lines between the ranks of one index, next to each other around a ring, and to nobody else.
TEST(TwoLevelLines, AreFew) {
  const int without = descriptors_after_join("off");
  EXPECT_LE(descriptors_after_join("64K"), without + 16) << "to all far ranks it would be 28 more";
}

// Groups that mix what takes the way at two levels with what does not, on CUDA streams and blocking.
TEST(TwoLevelGroups, OfManyKindsAreExact) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const ScopedSetting from("TUTTI_TWO_LEVELS", "1K");
  DeviceProcesses processes(hosts(3, 2), [](tuttiComm_t comm, int rank, Shared& shared) {
    ASSERT_NE(comm, nullptr) << shared.text[rank];
    constexpr std::size_t kRanks = 6;
    const auto own = static_cast<std::size_t>(rank);
    for (const std::size_t count : {std::size_t{1}, std::size_t{300}, std::size_t{20'011}}) {
      const int root = static_cast<int>(count % kRanks);
      DeviceFloats sum(std::vector<float>(count, 1.0f)), small(std::vector<float>(3, 1.0f));
      DeviceFloats sent(std::vector<float>(count, own + 1.0f)), gathered(count * kRanks);
      DeviceFloats scattered(std::vector<float>(count * kRanks, 3.0f)), part(count);
      {
        CallerStream stream(stand_in().current_device());
        const tuttiStream_t on = rank % 2 == 0 ? stream.get() : nullptr;
        EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
        EXPECT_EQ(tuttiAllReduce(sum.data(), sum.data(), count, tuttiFloat32, tuttiSum, comm, on), tuttiSuccess);
        EXPECT_EQ(tuttiAllReduce(small.data(), small.data(), 3, tuttiFloat32, tuttiSum, comm, on), tuttiSuccess);
        EXPECT_EQ(tuttiAllGather(sent.data(), gathered.data(), count, tuttiFloat32, comm, on), tuttiSuccess);
        EXPECT_EQ(tuttiReduceScatter(scattered.data(), part.data(), count, tuttiFloat32, tuttiSum, comm, on),
                  tuttiSuccess);
        EXPECT_EQ(tuttiAllReduce(sum.data(), sum.data(), 0, tuttiFloat32, tuttiSum, comm, on), tuttiSuccess);
        EXPECT_EQ(tuttiBroadcast(sent.data(), sent.data(), count, tuttiFloat32, root, comm, on), tuttiSuccess);
        EXPECT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError(nullptr);
        if (on != nullptr) {
          EXPECT_EQ(tuttiStreamSynchronize(on), tuttiSuccess) << tuttiGetLastError(comm);
        }
        stream.drain();
      }
      EXPECT_TRUE(sum.get() == std::vector<float>(count, 6.0f));
      EXPECT_TRUE(small.get() == std::vector<float>(3, 6.0f));
      EXPECT_TRUE(part.get() == std::vector<float>(count, 18.0f));
      EXPECT_TRUE(sent.get() == std::vector<float>(count, static_cast<float>(root) + 1.0f));
      for (std::size_t block = 0; block < kRanks; ++block)
        EXPECT_TRUE(std::all_of(gathered.data() + block * count, gathered.data() + (block + 1) * count,
                                [&](float value) { return value == static_cast<float>(block + 1); }));
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
  processes.expect_success();
}

}  // namespace
}  // namespace tutti::test

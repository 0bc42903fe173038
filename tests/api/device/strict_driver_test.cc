// Calls on a driver that does what a driver may do: streams of ranks share a hardware queue, and what allocates
// waits for kernels and keeps launches out.
// Covers transport/device/local_launches.cc, device/quiet_moment.cc, executor/device/device_executor.cc,
// comm/queue/call_group.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "device/quiet_moment.h"
#include "support/device/caller_stream.h"
#include "support/device/device_vector.h"
#include "support/ranks.h"
#include "support/sanitized.h"
#include "support/texts.h"
#include "transport/device/device_info.h"
#include "transport/device/local_launches.h"

namespace tutti::test {
namespace {

class StrictDriver : public ::testing::Test {
 protected:
  void SetUp() override { stand_in().be_strict(2); }
  void TearDown() override { stand_in().be_strict(was_strict_ ? 8 : 0); }
  const bool was_strict_ = stand_in().is_strict();
  const ScopedSetting transport_{"TUTTI_TRANSPORT", "cuda"};
  const ScopedSetting timeout_{"TUTTI_TIMEOUT", "20"};
};

// The second call of one rank waits in the queue for the first one, and the other rank's first call must not come after
// that.
TEST_F(StrictDriver, RanksOfADeviceMayHaveStreamsOfOneHardwareQueue) {
  constexpr int kCalls = 12;
  const CallerStream first(0), between(0), second(0);  // the streams take two queues in turn
  run_threads(2, [&](tuttiComm_t comm, int rank) {
    tuttiStream_t const stream = rank == 0 ? first.get() : second.get();
    DeviceVector data(1000, 1.0f);
    for (int call = 0; call < kCalls; ++call) {
      if (rank == call % 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ASSERT_EQ(tuttiAllReduce(data.data(), data.data(), 1000, tuttiFloat32, tuttiSum, comm, stream), tuttiSuccess)
          << last_error(comm);
    }
    EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiSuccess) << last_error(comm);
    EXPECT_TRUE(data.is(static_cast<float>(1 << kCalls)));
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << last_error();
  });
}

/// One thread's calls of all ranks of some communicators, each on a stream of its own.
class CallsOfRanks {
 public:
  explicit CallsOfRanks(std::vector<tuttiComm_t> comms) : comms_(std::move(comms)) {
    for (std::size_t i = 0; i < comms_.size(); ++i) {
      streams_.push_back(std::make_unique<CallerStream>(0));
      others_.push_back(std::make_unique<CallerStream>(0));  // which the next queues fall to
      data_.push_back(std::make_unique<DeviceVector>(1000, 1.0f));
    }
  }
  void make() {
    for (std::size_t i = 0; i < comms_.size(); ++i) {
      float* const data = data_[i]->data();
      EXPECT_EQ(tuttiAllReduce(data, data, 1000, tuttiFloat32, tuttiSum, comms_[i], streams_[i]->get()), tuttiSuccess)
          << last_error(comms_[i]);
    }
  }
  void make_in_a_group(int calls) {
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    for (int call = 0; call < calls; ++call) make();
    EXPECT_EQ(tuttiGroupEnd(), tuttiSuccess) << last_error();
  }
  void expect(float value) {
    for (std::size_t i = 0; i < comms_.size(); ++i) {
      EXPECT_EQ(tuttiStreamSynchronize(streams_[i]->get()), tuttiSuccess) << last_error(comms_[i]);
      EXPECT_TRUE(data_[i]->is(value)) << i;
    }
  }

 private:
  std::vector<tuttiComm_t> comms_;
  std::vector<std::unique_ptr<CallerStream>> streams_, others_;
  std::vector<std::unique_ptr<DeviceVector>> data_;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// What the library puts after one rank's kernel must not come before the other rank's, in a group of one thread, too.
TEST_F(StrictDriver, RanksOfAGroupMayHaveStreamsOfOneHardwareQueue) {
  tuttiComm_t comms[2];
  ASSERT_EQ(tuttiCommInitAll(comms, 2, nullptr), tuttiSuccess) << last_error();
  {
    CallsOfRanks calls({comms[0], comms[1]});
    for (int round = 0; round < 3; ++round) calls.make_in_a_group(2);
    calls.expect(64.0f);
  }
  for (const tuttiComm_t comm : comms) EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
}

// Neither thread waits for a rank of the other one that cannot come before its own.
TEST_F(StrictDriver, ThreadsOfSeveralRanksEachDoNotHoldEachOtherUp) {
  stand_in().be_strict(8);
  tuttiComm_t comms[4];
  const int devices[4] = {0, 0, 0, 0};
  ASSERT_EQ(tuttiCommInitAll(comms, 4, devices), tuttiSuccess) << last_error();
  const auto begin = std::chrono::steady_clock::now();
  const auto run = [&comms](std::size_t first, bool in_groups) {
    CallsOfRanks calls({comms[first], comms[first + 1]});
    for (int round = 0; round < 3; ++round) in_groups ? calls.make_in_a_group(1) : calls.make();
    calls.expect(64.0f);
  };
  for (const bool in_groups : {true, false}) {
    std::thread other(run, 2, in_groups);
    run(0, in_groups);
    other.join();
  }
  EXPECT_LT(seconds_since(begin), kSanitized ? 10.0 : 3.0) << "a call has waited for a second";
  for (const tuttiComm_t comm : comms) EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
}

// A communicator whose calls may take less than the wait for other ranks' launches.
TEST_F(StrictDriver, ShortTimeoutsLeaveTimeForTheOtherRanks) {
  stand_in().be_strict(8);
  tuttiComm_t comms[2];
  ASSERT_EQ(tuttiCommInitAll(comms, 2, nullptr), tuttiSuccess) << last_error();
  for (const tuttiComm_t comm : comms) EXPECT_EQ(tuttiCommSetTimeout(comm, 0.8), tuttiSuccess);
  {
    CallsOfRanks calls({comms[0], comms[1]});
    calls.make();
    calls.expect(2.0f);
  }
  for (const tuttiComm_t comm : comms) EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
}

// One rank is half a second behind the other, and meanwhile another communicator is made. Its join waits for two
// seconds at most, of which a busy machine takes some.
TEST_F(StrictDriver, AJoinWaitsForALateRank) {
  stand_in().be_strict(8);
  const ScopedSetting timeout("TUTTI_TIMEOUT", "8");
  std::atomic<int> called{0};
  std::thread join([&called] {
    while (called.load() == 0) std::this_thread::yield();
    tuttiComm_t others[2];
    EXPECT_EQ(tuttiCommInitAll(others, 2, nullptr), tuttiSuccess) << last_error();
    for (const tuttiComm_t comm : others) EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
  });
  run_threads(2, [&called](tuttiComm_t comm, int rank) {
    CallerStream stream(0);
    DeviceVector data(100, 1.0f);
    EXPECT_EQ(tuttiAllReduce(data.data(), data.data(), 100, tuttiFloat32, tuttiSum, comm, stream.get()), tuttiSuccess);
    EXPECT_EQ(tuttiStreamSynchronize(stream.get()), tuttiSuccess) << last_error(comm);
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    if (rank == 0)
      std::thread([&called] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        called = 1;
      }).detach();
    EXPECT_EQ(tuttiAllReduce(data.data(), data.data(), 100, tuttiFloat32, tuttiSum, comm, stream.get()), tuttiSuccess)
        << last_error(comm);
    EXPECT_EQ(tuttiStreamSynchronize(stream.get()), tuttiSuccess) << last_error(comm);
    EXPECT_TRUE(data.is(4.0f));
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << last_error();
  });
  join.join();
}

// Joins and ends allocate and free beside the calls of another communicator, whose ranks launch at different times.
TEST_F(StrictDriver, JoinsAndEndsGoOnBesideCallsThatAreHalfLaunched) {
  stand_in().be_strict(8);
  run_threads(2, [&](tuttiComm_t comm, int rank) {
    DeviceVector data(100, 1.0f);
    for (int round = 0; round < 4; ++round) {
      tuttiComm_t child = nullptr;
      ASSERT_EQ(tuttiCommSplit(comm, 0, rank, &child, nullptr), tuttiSuccess) << last_error(comm);
      if (rank == round % 2) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      EXPECT_EQ(tuttiCommDestroy(child), tuttiSuccess) << last_error();
      data.fill(1.0f);
      ASSERT_EQ(tuttiAllReduce(data.data(), data.data(), 100, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess)
          << last_error(comm);
      EXPECT_TRUE(data.is(2.0f));
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << last_error();
  });
  EXPECT_TRUE(QuietMoment().is_quiet()) << "a call is still half launched";
}

// No call may hold up the next one for longer than that when one thread makes the calls of both ranks without a group.
TEST_F(StrictDriver, OneThreadWithoutAGroupIsNotStuck) {
  stand_in().be_strict(8);
  tuttiComm_t comms[2];
  ASSERT_EQ(tuttiCommInitAll(comms, 2, nullptr), tuttiSuccess) << last_error();
  const CallerStream streams[2] = {CallerStream(0), CallerStream(0)};
  DeviceVector data[2] = {{100, 1.0f}, {100, 1.0f}};
  for (int call = 0; call < 3; ++call)
    for (const std::size_t rank : {std::size_t{0}, std::size_t{1}})
      ASSERT_EQ(tuttiAllReduce(data[rank].data(), data[rank].data(), 100, tuttiFloat32, tuttiSum, comms[rank],
                               streams[rank].get()),
                tuttiSuccess)
          << last_error(comms[rank]);
  for (const std::size_t rank : {std::size_t{0}, std::size_t{1}}) {
    EXPECT_EQ(tuttiStreamSynchronize(streams[rank].get()), tuttiSuccess) << last_error(comms[rank]);
    EXPECT_TRUE(data[rank].is(8.0f));
  }
  for (const tuttiComm_t comm : comms) EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
}

TEST(LocalLaunches, OpenACallUntilAllRanksHaveLaunchedIt) {
  LocalLaunches launches;
  launches.add(Rank{0}, 0);
  launches.add(Rank{1}, 0);
  EXPECT_TRUE(QuietMoment().is_quiet());
  launches.begin(Rank{0});
  launches.end(Rank{0});
  EXPECT_FALSE(QuietMoment().is_quiet());
  EXPECT_FALSE(QuietMoment(Deadline::in(0.02)).is_quiet());
  EXPECT_EQ(launches.missing(Rank{0}), Rank{1});
  EXPECT_EQ(launches.missing_elsewhere(Rank{0}), kNoRank) << "this thread makes the calls of both";
  std::thread([&] { launches.note_thread(Rank{1}); }).join();
  EXPECT_EQ(launches.missing_elsewhere(Rank{0}), Rank{1});
  launches.begin(Rank{1});
  launches.end(Rank{1});
  EXPECT_EQ(launches.missing(Rank{0}), kNoRank);
  EXPECT_TRUE(QuietMoment().is_quiet());
  launches.begin(Rank{1});
  EXPECT_FALSE(QuietMoment().is_quiet());
  launches.stop(Rank{0});
  EXPECT_FALSE(QuietMoment().is_quiet()) << "a kernel of rank 1 may wait for rank 0";
  EXPECT_EQ(launches.missing(Rank{1}), kNoRank);
  launches.stop(Rank{1});
  EXPECT_TRUE(QuietMoment().is_quiet()) << "a communicator that has failed launches nothing that is waited for";
}

TEST(LocalLaunches, BeginAfterAQuietMoment) {
  LocalLaunches launches;
  launches.add(Rank{0}, 0);
  launches.add(Rank{1}, 0);
  std::atomic<bool> begun{false};
  auto quiet = std::make_unique<QuietMoment>();
  ASSERT_TRUE(quiet->is_quiet());
  std::thread other([&] {
    launches.begin(Rank{0});
    begun.store(true);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(begun.load());
  for (const Rank rank : {Rank{0}, Rank{1}}) launches.stop(rank);  // a failure is told at once, whoever waits
  quiet = nullptr;
  other.join();
  EXPECT_TRUE(begun.load());
  EXPECT_TRUE(QuietMoment().is_quiet());
}

TEST(QuietMoments, AreWaitedForInVainOnlyOnce) {
  HalfLaunchedCalls::get().begin();
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(QuietMoment(Deadline::in(0.05)).is_quiet());
  EXPECT_FALSE(QuietMoment(Deadline::in(60)).is_quiet());
  EXPECT_LT(seconds_since(begin), 30);
  HalfLaunchedCalls::get().begin();
  HalfLaunchedCalls::get().end(1);
  EXPECT_FALSE(QuietMoment(Deadline::in(0.05)).is_quiet());
  EXPECT_GT(seconds_since(begin), 0.1) << "another call has been launched by all in between";
  HalfLaunchedCalls::get().end(1);
  EXPECT_TRUE(QuietMoment(Deadline::in(60)).is_quiet());
}

TEST(DeviceInfos, LaunchesThatBlockAreForOneRankAProcess) {
  DeviceInfo info;
  info.limits = {132, 8, true};
  DeviceInfo told;
  ASSERT_TRUE(DeviceInfo::decode(info.encode(), &told).ok());
  EXPECT_TRUE(told.limits.launches_block);
  const DevicePeers together{{told, told}, {4, 4}};
  EXPECT_TRUE(contains(together.check_concurrency().text(), "CUDA_LAUNCH_BLOCKING"))
      << together.check_concurrency().text();
  DeviceInfo other = told;
  other.identity.uuid[0] = std::byte{1};
  const DevicePeers apart{{told, other}, {4, 5}};
  EXPECT_TRUE(apart.check_concurrency().ok()) << apart.check_concurrency().text();
}

}  // namespace
}  // namespace tutti::test

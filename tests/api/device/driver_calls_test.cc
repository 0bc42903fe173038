// How many calls of the driver a collective costs once its buffers, its stream and the links are there.
// Covers executor/device/device_executor.cc, device/call_end.h, device/device_event.cc, comm/device/device_side.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/device/caller_stream.h"
#include "support/device/device_vector.h"
#include "support/ranks.h"

namespace tutti::test {
namespace {

using DriverCounts = std::map<std::string, std::size_t>;

DriverCounts more_calls(const DriverCounts& after, const DriverCounts& before) {
  DriverCounts difference;
  for (const auto& [name, count] : after) {
    const auto found = before.find(name);
    const std::size_t more = count - (found == before.end() ? 0 : found->second);
    if (more != 0) difference[name] = more;
  }
  return difference;
}

constexpr int kCallers = 2;
constexpr std::size_t kCallsOfEach = 6;  // of each rank

/// A call that a rank makes again and again, with buffers of its own.
using CallOfRank = std::function<tuttiResult_t(float* from, float* to, std::size_t count, tuttiComm_t, tuttiStream_t)>;

struct CountedCall {
  std::size_t count;
  bool in_place;
  bool on_stream;
  bool on_two_devices;
};

/// The functions of the driver that the calls of all ranks use. Looks at a device whose kernels are late are left out,
/// because they depend on time.
DriverCounts driver_calls_of(const CountedCall& kind, const CallOfRank& call) {
  DriverCounts found;
  std::chrono::steady_clock::duration took{};
  std::barrier all(kCallers);
  stand_in().set_devices(kind.on_two_devices ? kCallers : 1);
  run_threads(kCallers, [&](tuttiComm_t comm, int rank) {
    const int device = kind.on_two_devices ? rank : 0;
    const CallerStream stream(device);
    tuttiStream_t const on = kind.on_stream ? stream.get() : nullptr;
    {
      DeviceVector from(kind.count, 1.0f, device), to(kind.count, 1.0f, device);
      const auto make = [&](std::size_t calls) {
        for (std::size_t i = 0; i < calls; ++i) {
          EXPECT_EQ(call(kind.in_place ? to.data() : from.data(), to.data(), kind.count, comm, on), tuttiSuccess)
              << tuttiGetLastError(comm);
          EXPECT_EQ(tuttiStreamSynchronize(stream.get()), tuttiSuccess) << tuttiGetLastError(comm);
        }
      };
      make(3);
      all.arrive_and_wait();
      DriverCounts before;
      const auto begin = std::chrono::steady_clock::now();
      if (rank == 0) before = stand_in().calls();
      all.arrive_and_wait();
      make(kCallsOfEach);
      all.arrive_and_wait();
      if (rank == 0) found = more_calls(stand_in().calls(), before);
      if (rank == 0) took = std::chrono::steady_clock::now() - begin;
      all.arrive_and_wait();
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
  stand_in().set_devices(1);
  const auto looks = static_cast<std::size_t>(took / std::chrono::milliseconds{5}) + 1;
  EXPECT_LE(found["query"], 2 * kCallers * looks);
  found.erase("query");
  return found;
}

tuttiResult_t sum_of(float* from, float* to, std::size_t count, tuttiComm_t comm, tuttiStream_t stream) {
  return tuttiAllReduce(from, to, count, tuttiFloat32, tuttiSum, comm, stream);
}

class CallsOfTheDriver : public ::testing::Test {
 protected:
  static constexpr std::size_t kAll = kCallers * kCallsOfEach;
  const ScopedSetting transport_{"TUTTI_TRANSPORT", "cuda"};
};

// The places of two buffers, whether the stream is captured, and the launch.
TEST_F(CallsOfTheDriver, ACallOnAStreamTakesFour) {
  const DriverCounts expected{{"capture_of", kAll}, {"launch", kAll}, {"place_of", 2 * kAll}};
  EXPECT_EQ(driver_calls_of({1000, false, true, false}, sum_of), expected);
}

TEST_F(CallsOfTheDriver, ACallInPlaceAsksOnce) {
  const DriverCounts expected{{"capture_of", kAll}, {"launch", kAll}, {"place_of", kAll}};
  EXPECT_EQ(driver_calls_of({1000, true, true, false}, sum_of), expected);
}

// Lending asks which allocation a buffer is a part of.
TEST_F(CallsOfTheDriver, ALargeCallBetweenDevicesTakesNoMore) {
  const DriverCounts expected{{"capture_of", kAll}, {"launch", kAll}, {"place_of", 2 * kAll}};
  const std::size_t lent = stand_in().lending_launches();
  EXPECT_EQ(driver_calls_of({std::size_t{1} << 16, false, true, true}, sum_of), expected);
  EXPECT_GE(stand_in().lending_launches(), lent + kAll);
}

// It comes after the default stream's work: an event there, which the rank's own stream waits for.
TEST_F(CallsOfTheDriver, ACallWithoutAStreamTakesSix) {
  const DriverCounts expected{
      {"capture_of", kAll}, {"launch", kAll}, {"place_of", 2 * kAll}, {"record", kAll}, {"wait", kAll}};
  DriverCounts found = driver_calls_of({1000, false, false, false}, sum_of);
  EXPECT_LE(found["record"], 2 * kAll) << "one more a call that runs for long";
  EXPECT_GE(found["record"], kAll);
  found["record"] = kAll;
  EXPECT_EQ(found, expected);
}

// Each stream waits for the call before, which is on the other one, if that has not ended. No event is made anew.
TEST_F(CallsOfTheDriver, ACallThatChangesTheStreamTakesSixAtMost) {
  std::array<std::unique_ptr<CallerStream>, kCallers> others;
  for (auto& other : others) other = std::make_unique<CallerStream>(0);
  std::atomic<std::size_t> next{0};
  static thread_local std::size_t callers_number = 0;
  static thread_local std::size_t place = 0;
  const auto call = [&](float* from, float* to, std::size_t count, tuttiComm_t comm, tuttiStream_t stream) {
    if (callers_number == 0) place = next++;
    return sum_of(from, to, count, comm, callers_number++ % 2 == 0 ? stream : others[place]->get());
  };
  DriverCounts found = driver_calls_of({1000, false, true, false}, call);
  for (auto& other : others) other->drain();
  EXPECT_LE(found["record"], kAll);
  EXPECT_LE(found["wait"] + found["wait_for_word"], kAll);
  for (const char* const ordering : {"record", "wait", "wait_for_word"}) found.erase(ordering);
  const DriverCounts expected{{"capture_of", kAll}, {"launch", kAll}, {"place_of", 2 * kAll}};
  EXPECT_EQ(found, expected);
}

// To reach another device makes each later allocation of the process take longer, so only devices of one communicator
// do.
TEST_F(CallsOfTheDriver, OnlyDevicesOfACommunicatorReachEachOther) {
  constexpr int kDevices = 8, kFirst = 5, kSecond = 2;
  stand_in().set_devices(kDevices);
  const std::size_t before = stand_in().calls()["reach"];
  const int devices[] = {kFirst, kSecond};
  tuttiComm_t comms[2];
  ASSERT_EQ(tuttiCommInitAll(comms, 2, devices), tuttiSuccess) << tuttiGetLastError(nullptr);
  EXPECT_EQ(stand_in().calls()["reach"] - before, 2u) << "one for each of the two";
  std::vector<std::thread> ends;
  for (const tuttiComm_t comm : comms) ends.emplace_back([comm] { EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess); });
  for (std::thread& end : ends) end.join();
  stand_in().set_devices(1);
}

class EndsOfCalls : public ::testing::Test {
 protected:
  const ScopedSetting transport_{"TUTTI_TRANSPORT", "cuda"};
  const ScopedSetting quiet_{"TUTTI_LOG", "error"};
};

// The words of a kernel that died never come.
TEST_F(EndsOfCalls, AFailedDeviceIsSeen) {
  std::barrier all(kCallers);
  run_threads(kCallers, [&](tuttiComm_t comm, int rank) {
    {
      const CallerStream stream(0);
      DeviceVector data(100, 1.0f);
      if (rank == 0) {
        stand_in().fail_next("query", "an illegal memory access was encountered");
        EXPECT_EQ(sum_of(data.data(), data.data(), 100, comm, stream.get()), tuttiSuccess);
        EXPECT_EQ(tuttiStreamSynchronize(stream.get()), tuttiUnhandledCudaError);
      }
      all.arrive_and_wait();
      EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
    }
  });
}

TEST_F(EndsOfCalls, AKernelThatIsGoneIsSeen) {
  std::barrier all(kCallers);
  run_threads(kCallers, [&](tuttiComm_t comm, int rank) {
    DeviceVector data(100, 1.0f);
    if (rank == 0) stand_in().skip_kernels(true);
    all.arrive_and_wait();
    EXPECT_EQ(sum_of(data.data(), data.data(), 100, comm, nullptr), tuttiUnhandledCudaError);
    all.arrive_and_wait();
    if (rank == 0) stand_in().skip_kernels(false);
    EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
  });
}

// No event tells the second stream when the first call ends.
TEST_F(EndsOfCalls, AnotherStreamWaitsForTheWords) {
  std::atomic<bool> come{false};
  const DriverCounts before = stand_in().calls();
  run_threads(kCallers, [&](tuttiComm_t comm, int rank) {
    const CallerStream first(0), second(0);
    {
      DeviceVector data(1000, 1.0f);
      if (rank == 1) await([&] { return come.load(); }, "the other rank's calls");
      EXPECT_EQ(sum_of(data.data(), data.data(), 1000, comm, first.get()), tuttiSuccess);
      EXPECT_EQ(sum_of(data.data(), data.data(), 1000, comm, second.get()), tuttiSuccess);
      if (rank == 0) come.store(true);
      EXPECT_EQ(tuttiStreamSynchronize(second.get()), tuttiSuccess) << tuttiGetLastError(comm);
      EXPECT_TRUE(data.is(4.0f));
      EXPECT_EQ(tuttiStreamSynchronize(first.get()), tuttiSuccess);
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
  EXPECT_GE(more_calls(stand_in().calls(), before)["wait_for_word"], 1u);
}

}  // namespace
}  // namespace tutti::test

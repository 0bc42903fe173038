// Where a rank's buffers are, where that is not plain: a rank that moves nothing, buffers that are not used, memory
// that device and processor both may use.
// Covers comm/device/device_side.cc, comm/device_calls.cc, comm/queue/operation.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/device/device_vector.h"
#include "support/ranks.h"
#include "support/texts.h"

namespace tutti::test {
namespace {

constexpr int kRanks = 3;
/// The one that moves nothing.
constexpr int kIdle = 1;

/// How a call without a CUDA stream is made.
enum class PlaceWay { kBlocking, kGrouped, kOnStream };

class Idle : public ::testing::TestWithParam<PlaceWay> {
 protected:
  /// `call` in the way of this test; the result of the whole.
  template <class Call>
  static tuttiResult_t make(const Call& call) {
    if (GetParam() == PlaceWay::kBlocking) return call(nullptr);
    if (GetParam() == PlaceWay::kGrouped) {
      EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
      EXPECT_EQ(call(nullptr), tuttiSuccess);
      return tuttiGroupEnd();
    }
    tuttiStream_t stream = nullptr;
    EXPECT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    EXPECT_EQ(call(stream), tuttiSuccess);
    const tuttiResult_t result = tuttiStreamSynchronize(stream);
    EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    return result;
  }
  const ScopedSetting transport_{"TUTTI_TRANSPORT", "cuda"};
  const ScopedSetting quiet_{"TUTTI_LOG", "error"};
};

/// Ranks other than the idle one send each other their number; `buffer` has room for one element a rank, twice.
tuttiResult_t exchange(float* buffer, int rank, tuttiComm_t comm, tuttiStream_t stream) {
  std::size_t counts[kRanks], starts[kRanks];
  for (std::size_t r = 0; r < kRanks; ++r) {
    counts[r] = rank == kIdle || r == kIdle ? 0 : 1;
    starts[r] = r;
  }
  return tuttiAllToAllV(buffer, counts, starts, buffer == nullptr ? nullptr : buffer + kRanks, counts, starts,
                        tuttiFloat32, comm, stream);
}

void expect_numbers(const float* buffer, int rank) {
  for (int r = 0; r < kRanks; ++r)
    EXPECT_EQ(buffer[kRanks + r], r == kIdle || rank == kIdle ? -1.0f : static_cast<float>(10 + r));
}

// It has to go where the others go: kernels do not meet messages of the host.
TEST_P(Idle, RanksGoWhereTheOthersAre) {
  run_threads(kRanks, [](tuttiComm_t comm, int rank) {
    EXPECT_EQ(tuttiCommSetTimeout(comm, kFarSeconds), tuttiSuccess);
    const auto numbers = static_cast<float>(10 + rank);
    DeviceVector data(2 * kRanks, numbers);
    std::vector<float> host(2 * kRanks, numbers);
    for (int round = 0; round < 3; ++round) {
      for (float* const buffer : {data.data(), host.data()}) {
        std::fill_n(buffer + kRanks, kRanks, -1.0f);
        // Nothing, memory of the other kind, or of the same: none of it is used.
        float* const unused[] = {nullptr, buffer == host.data() ? data.data() : host.data(), buffer};
        float* const given = rank == kIdle ? unused[round] : buffer;
        const auto call = [&](tuttiStream_t stream) { return exchange(given, rank, comm, stream); };
        ASSERT_EQ(make(call), tuttiSuccess) << last_error(comm);
        expect_numbers(buffer, rank);
      }
      // Nobody moves anything.
      const std::size_t none[kRanks] = {};
      const auto call = [&](tuttiStream_t stream) {
        return tuttiAllToAllV(nullptr, none, none, nullptr, none, none, tuttiFloat32, comm, stream);
      };
      ASSERT_EQ(make(call), tuttiSuccess) << last_error(comm);
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << last_error(nullptr);
  });
}

TEST_P(Idle, RanksFindThatTheOthersMakeAnotherCall) {
  run_threads(kRanks, [](tuttiComm_t comm, int rank) {
    const auto call = [&](tuttiStream_t stream) {
      return rank == kIdle ? exchange(nullptr, rank, comm, stream) : tuttiBarrier(comm, stream);
    };
    EXPECT_EQ(make(call), tuttiMismatch);
    EXPECT_TRUE(contains(last_error(comm), "all_to_all_v") && contains(last_error(comm), "barrier"))
        << last_error(comm);
    EXPECT_NE(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

TEST_P(Idle, RanksNameTheOneThatDoesNotCome) {
  Meeting callers(kRanks);
  std::atomic<int> failed{0};
  run_threads(kRanks, [&](tuttiComm_t comm, int rank) {
    EXPECT_EQ(tuttiCommSetTimeout(comm, 3), tuttiSuccess);
    callers.arrive_and_wait();
    if (rank != 0) {
      const std::size_t none[kRanks] = {};
      const auto call = [&](tuttiStream_t stream) {
        return tuttiAllToAllV(nullptr, none, none, nullptr, none, none, tuttiFloat32, comm, stream);
      };
      EXPECT_EQ(make(call), tuttiTimeout);
      EXPECT_TRUE(contains(last_error(comm), "rank 0 has not called all_to_all_v")) << last_error(comm);
      ++failed;
    }
    await([&] { return failed.load() >= kRanks - 1; }, "the failures of the others");
    EXPECT_NE(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

std::string name_of_way(const ::testing::TestParamInfo<PlaceWay>& info) {
  if (info.param == PlaceWay::kBlocking) return "Blocking";
  return info.param == PlaceWay::kGrouped ? "Grouped" : "OnStream";
}
INSTANTIATE_TEST_SUITE_P(Ways, Idle, ::testing::Values(PlaceWay::kBlocking, PlaceWay::kGrouped, PlaceWay::kOnStream),
                         name_of_way);

// A buffer that nothing is read from or written to may be anything.
TEST(Places, OfWhatIsNotUsedDoNotMatter) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "cuda");
  run_threads(2, [](tuttiComm_t comm, int rank) {
    DeviceVector data(2, static_cast<float>(rank + 1));
    std::vector<float> host(2, -1.0f);
    const std::size_t none[2] = {}, sends[2] = {0, 1}, receives[2] = {1, 0}, starts[2] = {};
    const tuttiResult_t result =
        rank == 0
            ? tuttiAllToAllV(data.data(), sends, starts, host.data(), none, starts, tuttiFloat32, comm, nullptr)
            : tuttiAllToAllV(host.data(), none, starts, data.data(), receives, starts, tuttiFloat32, comm, nullptr);
    EXPECT_EQ(result, tuttiSuccess) << last_error(comm);
    EXPECT_EQ(data[0], 1.0f);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << last_error(nullptr);
  });
}

// Memory that the processor may use as well goes with host memory, and alone with the device.
TEST(Places, OfManagedMemoryAreThoseOfTheOtherBuffer) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "cuda");
  const ScopedSetting quiet("TUTTI_LOG", "error");
  run_threads(2, [](tuttiComm_t comm, int rank) {
    DeviceVector managed(10, 1.0f), device(10, 1.0f);
    stand_in().manage(managed.data());
    std::vector<float> host(10, 1.0f);
    const auto reduce = [&](const float* from, float* to) {
      return tuttiAllReduce(from, to, 10, tuttiFloat32, tuttiSum, comm, nullptr);
    };
    const std::size_t launches = stand_in().launches();
    EXPECT_EQ(reduce(managed.data(), host.data()), tuttiSuccess) << last_error(comm);
    EXPECT_EQ(host[9], 2.0f);
    EXPECT_EQ(reduce(host.data(), managed.data()), tuttiSuccess) << last_error(comm);
    EXPECT_TRUE(managed.is(4.0f));
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
    EXPECT_EQ(stand_in().launches(), launches);
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
    EXPECT_EQ(reduce(managed.data(), device.data()), tuttiSuccess) << last_error(comm);
    EXPECT_TRUE(device.is(8.0f));
    EXPECT_EQ(reduce(managed.data(), managed.data()), tuttiSuccess) << last_error(comm);
    EXPECT_TRUE(managed.is(8.0f));
    EXPECT_GE(stand_in().launches(), launches + 2);
    EXPECT_EQ(reduce(host.data(), device.data()), tuttiInvalidArgument);
    // Messages are the host's, which may use it.
    if (rank == 0) {
      EXPECT_EQ(tuttiSend(managed.data(), 10, tuttiFloat32, 1, comm, nullptr), tuttiSuccess) << last_error(comm);
    } else {
      EXPECT_EQ(tuttiRecv(host.data(), 10, tuttiFloat32, 0, comm, nullptr), tuttiSuccess) << last_error(comm);
      EXPECT_EQ(host[9], 8.0f);
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << last_error(nullptr);
  });
}

// To start the driver takes longer than many a program; whoever starts it later finds that device buffers go.
TEST(Drivers, AreNotStartedForHostMemory) {
  stand_in().forget_use();
  run_threads(2, [](tuttiComm_t comm, int rank) {
    std::vector<float> host(10, 1.0f), other(10);
    const auto reduce = [&](float* data) {
      return tuttiAllReduce(data, data, 10, tuttiFloat32, tuttiSum, comm, nullptr);
    };
    for (int i = 0; i < 3; ++i) EXPECT_EQ(reduce(host.data()), tuttiSuccess) << last_error(comm);
    EXPECT_EQ(host[9], 8.0f);
    ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
    EXPECT_EQ(tuttiSend(host.data(), 10, tuttiFloat32, 1 - rank, comm, nullptr), tuttiSuccess);
    EXPECT_EQ(tuttiRecv(other.data(), 10, tuttiFloat32, 1 - rank, comm, nullptr), tuttiSuccess);
    EXPECT_EQ(tuttiGroupEnd(), tuttiSuccess) << last_error(nullptr);
    tuttiComm_t half = nullptr;
    ASSERT_EQ(tuttiCommSplit(comm, rank, 0, &half, nullptr), tuttiSuccess) << last_error(comm);
    EXPECT_EQ(tuttiCommDestroy(half), tuttiSuccess);
    EXPECT_FALSE(stand_in().is_used());
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
    stand_in().hide_memory(true);
    {
      void* hidden = nullptr;  // what nobody but the driver reaches
      ASSERT_EQ(tuttiMemAllocDevice(&hidden, 10 * sizeof(float), 0), tuttiSuccess);
      float* const real = reinterpret_cast<float*>(stand_in().reveal(hidden));
      std::fill_n(real, 10, 1.0f);
      EXPECT_EQ(reduce(static_cast<float*>(hidden)), tuttiSuccess) << last_error(comm);
      EXPECT_EQ(real[9], 2.0f);
      EXPECT_EQ(reduce(host.data()), tuttiSuccess) << last_error(comm);
      EXPECT_EQ(host[9], 16.0f);
      EXPECT_EQ(tuttiMemFree(hidden), tuttiSuccess);
    }
    EXPECT_TRUE(stand_in().is_used());
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << last_error(nullptr);
  });
  stand_in().hide_memory(false);
}

}  // namespace
}  // namespace tutti::test

// Many streams on few hardware queues; ranks of one call whose buffers are of different kinds.
// Covers transport/device/block_budget.cc, transport/device/rank_device_links.cc, comm/device/device_side.cc,
// comm/failure/culprit.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "support/device/device_vector.h"
#include "support/ranks.h"
#include "support/texts.h"

namespace tutti::test {
namespace {

class Crowd : public ::testing::Test {
 protected:
  void SetUp() override { stand_in().set_connections(8); }
  void TearDown() override {
    stand_in().set_connections(0);
    EXPECT_EQ(stand_in().allocations(), before_);
  }
  const std::size_t before_ = stand_in().allocations();  // tests of aborts may leave memory behind
  const ScopedSetting transport_{"TUTTI_TRANSPORT", "cuda"};
};

/// Streams of the caller's that are never idle, until the end.
class BusyStreams {
 public:
  explicit BusyStreams(int count) {
    for (int i = 0; i < count; ++i) {
      DeviceDriver::Stream stream = nullptr;
      EXPECT_TRUE(stand_in().create_caller_stream(0, &stream).ok());
      streams_.push_back(stream);
    }
    feeder_ = std::thread([this] {
      while (!stop_.load()) {
        for (const DeviceDriver::Stream stream : streams_)
          StandInDriver::put(stream, [] { std::this_thread::sleep_for(std::chrono::microseconds{300}); });
        for (const DeviceDriver::Stream stream : streams_) (void)stand_in().synchronize(stream);
      }
    });
  }
  ~BusyStreams() {
    stop_.store(true);
    feeder_.join();
    for (const DeviceDriver::Stream stream : streams_) EXPECT_TRUE(stand_in().destroy_stream(stream).ok());
  }
  BusyStreams(const BusyStreams&) = delete;
  BusyStreams& operator=(const BusyStreams&) = delete;

 private:
  std::vector<DeviceDriver::Stream> streams_;
  std::atomic<bool> stop_{false};
  std::thread feeder_;
};

// As many ranks as queues, and each queue has work of a user's stream too. Two ranks on one queue would wait for each
// other for ever.
TEST_F(Crowd, EightRanksRunBesideEightBusyStreams) {
  const BusyStreams busy(8);
  for (int round = 0; round < 2; ++round) {
    run_threads(8, [](tuttiComm_t comm, int rank) {
      for (const std::size_t count : {std::size_t{10}, std::size_t{20'000}}) {
        DeviceVector data(count, static_cast<float>(rank));
        for (int i = 0; i < 4; ++i) {
          data.fill(static_cast<float>(rank + i));
          ASSERT_EQ(tuttiAllReduce(data.data(), data.data(), count, tuttiFloat32, tuttiSum, comm, nullptr),
                    tuttiSuccess)
              << last_error(comm);
          EXPECT_TRUE(data.is(static_cast<float>(28 + 8 * i)));
        }
      }
      EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << last_error();
    });
  }
}

TEST_F(Crowd, MoreRanksThanQueuesAreRefused) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  stand_in().set_connections(3);
  tuttiComm_t comms[4];
  EXPECT_EQ(tuttiCommInitAll(comms, 4, nullptr), tuttiUnsupported);
  EXPECT_TRUE(contains(last_error(), "4 ranks of a process share the device of rank 0, whose streams run 3 at a time"))
      << last_error();
  run_threads(3, [](tuttiComm_t comm, int) {
    DeviceVector data(100, 1.0f);
    EXPECT_EQ(tuttiAllReduce(data.data(), data.data(), 100, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
    EXPECT_TRUE(data.is(3.0f));
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << last_error();
  });
}

/// How the rank with device memory calls.
enum class Way { kBlocking, kOnCudaStream };
class Kinds : public Crowd, public ::testing::WithParamInterface<Way> {};

// The default timeout is minutes: this ends because the boards are read.
TEST_P(Kinds, OfMemoryThatDifferBetweenRanksAreAMismatch) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  run_threads(3, [](tuttiComm_t comm, int rank) {
    DeviceVector data(100, 1.0f);
    std::vector<float> host(100, 1.0f);
    tuttiStream_t stream = nullptr;
    if (rank == 1 && GetParam() == Way::kOnCudaStream) {
      ASSERT_EQ(tuttiStreamFromCuda(&stream, nullptr), tuttiSuccess);
    }
    float* const buffer = rank == 1 ? data.data() : host.data();
    tuttiResult_t result = tuttiAllReduce(buffer, buffer, 100, tuttiFloat32, tuttiSum, comm, stream);
    if (stream != nullptr && result == tuttiSuccess) result = tuttiStreamSynchronize(stream);
    EXPECT_EQ(result, tuttiMismatch);
    EXPECT_TRUE(contains(last_error(comm), "rank 1") && contains(last_error(comm), "on device memory") &&
                contains(last_error(comm), "host and device buffers do not go together"))
        << last_error(comm);
    if (stream != nullptr) {
      EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    }
    EXPECT_NE(tuttiCommDestroy(comm), tuttiSuccess);
  });
}
INSTANTIATE_TEST_SUITE_P(Ways, Kinds, ::testing::Values(Way::kBlocking, Way::kOnCudaStream),
                         [](const auto& info) { return info.param == Way::kBlocking ? "Blocking" : "OnCudaStream"; });

// A call on host memory is remembered and repeated; the next one of the same shape may be on the device.
TEST_F(Crowd, RepeatsOfHostCallsLookWhereTheBuffersAre) {
  run_threads(2, [](tuttiComm_t comm, int) {
    DeviceVector data(16, 1.0f);
    float* own = nullptr;
    ASSERT_EQ(tuttiMemAlloc(reinterpret_cast<void**>(&own), 16 * sizeof(float)), tuttiSuccess);
    std::fill_n(own, 16, 1.0f);
    std::vector<float> host(16, 1.0f);
    float expected = 1.0f;
    const auto reduce = [&](float* buffer) {
      EXPECT_EQ(tuttiAllReduce(buffer, buffer, 16, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess)
          << last_error(comm);
    };
    for (int i = 0; i < 5; ++i) {
      expected *= 2;
      reduce(host.data());
      reduce(own);
      reduce(data.data());
      EXPECT_EQ(host[15], expected);
      EXPECT_EQ(own[15], expected);
      EXPECT_TRUE(data.is(expected));
    }
    EXPECT_EQ(tuttiMemFree(own), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << last_error();
  });
}

}  // namespace
}  // namespace tutti::test

// Whose CUDA stream a call is on: ranks that share one, handles that stand for a stream of each thread, streams of
// another device.
// Covers comm/device/cuda_stream.cc, comm/device/stream_deadlock_check.cc, comm/device_calls.cc,
// comm/queue/call_group.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/device/device_vector.h"
#include "support/ranks.h"
#include "support/texts.h"

namespace tutti::test {
namespace {

/// A stream as the library knows it; the caller's own, or a handle that CUDA gives a meaning to.
class Known {
 public:
  explicit Known(int device) : own_(true) {
    EXPECT_TRUE(stand_in().create_caller_stream(device, &cuda_).ok());
    EXPECT_EQ(tuttiStreamFromCuda(&tutti_, cuda_), tuttiSuccess) << last_error();
  }
  explicit Known(DeviceDriver::Stream handle) : own_(false) {
    EXPECT_EQ(tuttiStreamFromCuda(&tutti_, handle), tuttiSuccess) << last_error();
  }
  ~Known() {
    EXPECT_EQ(tuttiStreamDestroy(tutti_), tuttiSuccess);
    if (own_) {
      EXPECT_TRUE(stand_in().destroy_stream(cuda_).ok());
    }
  }
  Known(const Known&) = delete;
  Known& operator=(const Known&) = delete;
  operator tuttiStream_t() const { return tutti_; }
  void expect_end() const { EXPECT_EQ(tuttiStreamSynchronize(tutti_), tuttiSuccess) << last_error(); }

 private:
  const bool own_;
  DeviceDriver::Stream cuda_ = nullptr;
  tuttiStream_t tutti_ = nullptr;
};

/// How calls on streams are carried out.
enum class StreamWay { kKernels, kStaged };

/// Two ranks of this process, each with a buffer of ones.
class StreamsOfRanks : public ::testing::TestWithParam<StreamWay> {
 protected:
  static constexpr std::size_t kCount = 1000;
  void open(int second_device) {
    devices_[1] = second_device;
    stand_in().set_devices(second_device + 1);
    if (GetParam() == StreamWay::kStaged) stand_in().fail_next("load", "no kernels for this device");
    ASSERT_EQ(tuttiCommInitAll(comms_.data(), 2, devices_.data()), tuttiSuccess) << last_error();
    for (std::size_t rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(tuttiCommSetTimeout(comms_[rank], kFarSeconds), tuttiSuccess);
      data_[rank] = std::make_unique<DeviceVector>(kCount, 1.0f, devices_[rank]);
    }
  }
  void TearDown() override {
    std::vector<std::thread> ends;
    for (const tuttiComm_t comm : comms_)
      ends.emplace_back([comm] { EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << last_error(); });
    for (std::thread& end : ends) end.join();
    data_ = {};
    stand_in().set_devices(1);
  }
  tuttiResult_t reduce(std::size_t rank, tuttiStream_t stream) {
    float* const data = data_[rank]->data();
    return tuttiAllReduce(data, data, kCount, tuttiFloat32, tuttiSum, comms_[rank], stream);
  }
  static void expect_refusal(tuttiComm_t comm, tuttiResult_t result) {
    EXPECT_EQ(result, tuttiInvalidUsage);
    const std::string text = last_error(comm);
    EXPECT_TRUE(contains(text, "ranks of one communicator need streams of their own")) << text;
  }
  void expect_sum(float sum) {
    for (const auto& data : data_) EXPECT_TRUE(data->is(sum));
  }

  const ScopedSetting quiet_{"TUTTI_LOG", "error"};
  std::array<int, 2> devices_{};
  std::array<tuttiComm_t, 2> comms_{};
  std::array<std::unique_ptr<DeviceVector>, 2> data_;
};

TEST_P(StreamsOfRanks, OneForTwoIsRefusedAndBothGoOn) {
  open(0);
  const Known shared(0), other(0);
  EXPECT_EQ(reduce(0, shared), tuttiSuccess) << last_error(comms_[0]);
  expect_refusal(comms_[1], reduce(1, shared));
  EXPECT_EQ(reduce(1, other), tuttiSuccess) << last_error(comms_[1]);
  shared.expect_end();
  other.expect_end();
  expect_sum(2.0f);
  // The other way round; what has ended is in nobody's way.
  EXPECT_EQ(reduce(1, shared), tuttiSuccess) << last_error(comms_[1]);
  EXPECT_EQ(reduce(0, other), tuttiSuccess) << last_error(comms_[0]);
  shared.expect_end();
  other.expect_end();
  expect_sum(4.0f);
}

TEST_P(StreamsOfRanks, OneForTwoIsRefusedInAGroupBeforeAnythingRuns) {
  open(0);
  const Known shared(0), other(0);
  const std::size_t launches = stand_in().launches();
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  EXPECT_EQ(reduce(0, shared), tuttiSuccess);
  EXPECT_EQ(reduce(1, shared), tuttiSuccess);
  expect_refusal(nullptr, tuttiGroupEnd());
  EXPECT_EQ(stand_in().launches(), launches);
  shared.expect_end();
  expect_sum(1.0f);
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  EXPECT_EQ(reduce(0, shared), tuttiSuccess);
  EXPECT_EQ(reduce(1, other), tuttiSuccess);
  EXPECT_EQ(tuttiGroupEnd(), tuttiSuccess) << last_error();
  shared.expect_end();
  other.expect_end();
  expect_sum(2.0f);
}

// A call without a stream follows the default stream, where the other rank's call waits for it.
TEST_P(StreamsOfRanks, ACallBehindTheOtherRanksOnTheDefaultStreamIsRefused) {
  open(0);
  const Known common(nullptr), own(0);
  EXPECT_EQ(reduce(0, common), tuttiSuccess) << last_error(comms_[0]);
  expect_refusal(comms_[1], reduce(1, nullptr));
  expect_refusal(comms_[1], reduce(1, common));
  EXPECT_EQ(reduce(1, own), tuttiSuccess) << last_error(comms_[1]);
  common.expect_end();
  own.expect_end();
  expect_sum(2.0f);
}

TEST_P(StreamsOfRanks, EachThreadHasOneBehindThePerThreadHandle) {
  open(0);
  const auto reduce_in_thread = [this](std::size_t rank) {
    return std::thread([this, rank] {
      const Known own(stand_in().per_thread_stream());
      EXPECT_EQ(reduce(rank, own), tuttiSuccess) << last_error(comms_[rank]);
      own.expect_end();
    });
  };
  std::thread first = reduce_in_thread(0), second = reduce_in_thread(1);
  first.join();
  second.join();
  expect_sum(2.0f);
  // In one thread it is one stream.
  const Known here(stand_in().per_thread_stream()), again(stand_in().per_thread_stream());
  EXPECT_EQ(reduce(0, here), tuttiSuccess) << last_error(comms_[0]);
  expect_refusal(comms_[1], reduce(1, here));
  expect_refusal(comms_[1], reduce(1, again));
  reduce_in_thread(1).join();
  here.expect_end();
  expect_sum(4.0f);
}

// The library's queue behind the handle is one for all threads, and what the host carries out waits in it.
TEST_P(StreamsOfRanks, OneQueueOfTwoThreadsIsOneStreamToStagedCalls) {
  open(0);
  const Known shared(stand_in().per_thread_stream());
  EXPECT_EQ(reduce(0, shared), tuttiSuccess) << last_error(comms_[0]);
  std::thread([&] {
    const tuttiResult_t second = reduce(1, shared);
    if (GetParam() == StreamWay::kKernels) {
      EXPECT_EQ(second, tuttiSuccess) << last_error(comms_[1]);
    } else {
      const Known own(stand_in().per_thread_stream());
      expect_refusal(comms_[1], second);
      EXPECT_EQ(reduce(1, own), tuttiSuccess) << last_error(comms_[1]);
      own.expect_end();
    }
    shared.expect_end();
  }).join();
  expect_sum(2.0f);
}

TEST_P(StreamsOfRanks, AnotherDevicesIsRefusedAndTheCommunicatorGoesOn) {
  open(1);
  const Known first(0), second(1);
  EXPECT_EQ(reduce(1, first), tuttiInvalidArgument);
  EXPECT_TRUE(contains(last_error(comms_[1]), "the CUDA stream is one of device 0, and the call one for device 1"))
      << last_error(comms_[1]);
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  EXPECT_EQ(reduce(0, second), tuttiSuccess);
  EXPECT_EQ(reduce(1, first), tuttiSuccess);
  EXPECT_EQ(tuttiGroupEnd(), tuttiInvalidArgument);
  EXPECT_EQ(reduce(0, first), tuttiSuccess) << last_error(comms_[0]);
  EXPECT_EQ(reduce(1, second), tuttiSuccess) << last_error(comms_[1]);
  first.expect_end();
  second.expect_end();
  expect_sum(2.0f);
}

INSTANTIATE_TEST_SUITE_P(Ways, StreamsOfRanks, ::testing::Values(StreamWay::kKernels, StreamWay::kStaged),
                         [](const auto& info) { return info.param == StreamWay::kStaged ? "Staged" : "Kernels"; });

// Calls of one rank from two threads, one after the other: the handle is the same, the stream is not.
TEST(PerThreadStreams, KeepTheOrderOfARanksCalls) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "cuda");
  tuttiComm_t comm = nullptr;
  ASSERT_EQ(tuttiCommInitAll(&comm, 1, nullptr), tuttiSuccess) << last_error();
  {
    DeviceVector first(100, 0.0f), second(100, 0.0f), third(100, 0.0f);
    const Known each(stand_in().per_thread_stream());
    std::atomic<bool> go{false};
    std::promise<void> called;
    const auto copy = [&](DeviceVector& from, DeviceVector& to) {
      return tuttiAllReduce(from.data(), to.data(), 100, tuttiFloat32, tuttiSum, comm, each);
    };
    std::thread before([&] {
      StandInDriver::put(stand_in().per_thread_stream(), [&] {
        await([&] { return go.load(); }, "the word to go on");
        first.fill(1.0f);
      });
      EXPECT_EQ(copy(first, second), tuttiSuccess);
      called.set_value();
      each.expect_end();
    });
    std::thread behind([&] {
      EXPECT_EQ(called.get_future().wait_for(kPatience), std::future_status::ready);
      EXPECT_EQ(copy(second, third), tuttiSuccess);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));  // for a kernel that does not wait
      go.store(true);
      each.expect_end();
    });
    before.join();
    behind.join();
    EXPECT_TRUE(third.is(1.0f));
  }
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << last_error();
}

TEST(PerThreadStreams, AreRefusedWhereAGroupTakesThreadsOfItsOwn) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "cuda");
  const ScopedSetting quiet("TUTTI_LOG", "error");
  tuttiComm_t comm = nullptr, part = nullptr;
  ASSERT_EQ(tuttiCommInitAll(&comm, 1, nullptr), tuttiSuccess) << last_error();
  {
    DeviceVector data(100, 1.0f);
    const Known each(stand_in().per_thread_stream());
    ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
    EXPECT_EQ(tuttiAllReduce(data.data(), data.data(), 100, tuttiFloat32, tuttiSum, comm, each), tuttiSuccess);
    EXPECT_EQ(tuttiCommSplit(comm, 0, 0, &part, nullptr), tuttiSuccess);
    EXPECT_EQ(tuttiGroupEnd(), tuttiInvalidUsage);
    EXPECT_TRUE(contains(last_error(), "cudaStreamPerThread")) << last_error();
  }
  EXPECT_EQ(part, nullptr);
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << last_error();
}

}  // namespace
}  // namespace tutti::test

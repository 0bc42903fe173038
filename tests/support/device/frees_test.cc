// Covers support/device/stand_in_driver.cc, support/device/stand_in_memory.cc, support/device/stand_in_queue.h.
// What the stand-in frees while kernels run.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "support/device/device_vector.h"
#include "support/device/stand_in_driver.h"

namespace tutti::test {
namespace {

/// A kernel that runs until it is told to end.
class LongKernel {
 public:
  explicit LongKernel(
      int device, std::function<void()> last = [] {}) {
    EXPECT_TRUE(stand_in().create_stream(device, &stream_).ok());
    const auto graph = std::make_shared<Graph>();
    graph->lanes = {{[this, last](const Graph::Marks&) {
      begun_.reach();
      may_end_.wait();
      last();
    }}};
    StandInDriver::launch(graph, stream_);
    begun_.wait();
  }
  ~LongKernel() {
    end();
    EXPECT_TRUE(stand_in().destroy_stream(stream_).ok());
  }
  LongKernel(const LongKernel&) = delete;
  LongKernel& operator=(const LongKernel&) = delete;

  void end() {
    may_end_.reach();
    EXPECT_TRUE(stand_in().synchronize(stream_).ok());
  }

 private:
  DeviceDriver::Stream stream_ = nullptr;
  Mark begun_, may_end_;
};

/// Memory that is unmapped when it is freed, so that nobody can use it after that.
class StandInFrees : public ::testing::Test {
 protected:
  void SetUp() override { stand_in().be_seen_as(0); }
  void TearDown() override { stand_in().be_seen_as(-1); }
};

TEST_F(StandInFrees, WaitForTheKernelsOfTheDevice) {
  void* memory[2] = {};
  for (const int device : {0, 1}) ASSERT_TRUE(stand_in().allocate(device, Bytes{64}, &memory[device]).ok());
  std::atomic<int> freed{0};
  LongKernel kernel(1);
  const auto free = [&](int device) {
    EXPECT_TRUE(stand_in().release(device, memory[device]).ok());
    ++freed;
  };
  if (!stand_in().is_strict()) free(0);  // a strict driver waits for all kernels
  const int before = freed;
  std::thread other(free, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(freed, before);
  kernel.end();
  other.join();
  EXPECT_EQ(freed, before + 1);
  if (stand_in().is_strict()) free(0);
}

TEST_F(StandInFrees, OfATestsOwnMemoryComeAfterTheKernels) {
  const std::size_t before = stand_in().allocations();
  auto memory = std::make_unique<DeviceVector>(1000, 1.0f);
  LongKernel kernel(0, [data = memory->data()] { data[999] = 2.0f; });
  memory.reset();
  EXPECT_EQ(stand_in().allocations(), before) << "it counts as freed at once";
  kernel.end();
}

}  // namespace
}  // namespace tutti::test

// A group on a CUDA stream whose communicator has earlier calls on a stream of the library's, while a callback holds up
// the thread that runs those.
// Covers comm/queue/call_group.cc, comm/stream_wait.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <array>
#include <thread>

#include "support/device/caller_stream.h"
#include "support/device/device_vector.h"
#include "support/ranks.h"
#include "support/stuck_stream.h"

namespace tutti::test {
namespace {

TEST(AloneHeldUpGroup, OnACudaStreamEndsByTheTimeout) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  stand_in().set_devices(2);
  const std::array<int, 2> devices{0, 1};
  std::array<tuttiComm_t, 2> comms{};
  ASSERT_EQ(tuttiCommInitAll(comms.data(), 2, devices.data()), tuttiSuccess);
  std::thread other([&] {
    float value = 1;
    EXPECT_EQ(tuttiCommSetTimeout(comms[1], kFarSeconds), tuttiSuccess);
    EXPECT_NE(tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiSum, comms[1], nullptr), tuttiSuccess);
    (void)tuttiCommDestroy(comms[1]);
  });
  {
    const CallerStream cuda;
    DeviceVector data(10, 1.0f);
    float value = 1;
    tuttiStream_t stream = nullptr;
    EXPECT_EQ(tuttiCommSetTimeout(comms[0], 1), tuttiSuccess);
    EXPECT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    {
      const StuckStream stuck;
      EXPECT_EQ(tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiSum, comms[0], stream), tuttiSuccess);
      EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
      EXPECT_EQ(tuttiAllReduce(data.data(), data.data(), 10, tuttiFloat32, tuttiSum, comms[0], cuda.get()),
                tuttiSuccess);
      EXPECT_EQ(tuttiGroupEnd(), tuttiTimeout) << tuttiGetLastError(comms[0]);
    }
    EXPECT_NE(tuttiStreamSynchronize(stream), tuttiSuccess);
    EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    (void)tuttiCommDestroy(comms[0]);
  }
  other.join();
  stand_in().set_devices(1);
}

}  // namespace
}  // namespace tutti::test

// Which device a communicator uses: the one that its config names, none, or that of the calling thread.
// Covers comm/create.cc, comm/create_options.cc, comm/split.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <cstddef>
#include <string>

#include "support/device/device_vector.h"
#include "support/ranks.h"
#include "support/texts.h"

namespace tutti::test {
namespace {

std::string device_transport(tuttiComm_t comm) {
  char text[100] = "";
  EXPECT_EQ(tuttiCommGetInfo(comm, "device_transport", text, sizeof text), tuttiSuccess) << tuttiGetLastError(comm);
  return text;
}

tuttiConfig_t on_device(int device) {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.device = device;
  return config;
}

/// An all-reduce of two ranks on that device's memory.
tuttiResult_t reduce_on(int device, tuttiComm_t comm) {
  DeviceVector data(1000, 1.0f, device);
  const tuttiResult_t result = tuttiAllReduce(data.data(), data.data(), 1000, tuttiFloat32, tuttiSum, comm, nullptr);
  if (result == tuttiSuccess) {
    EXPECT_TRUE(data.is(2.0f));
  }
  return result;
}

class DeviceChoice : public ::testing::Test {
 protected:
  void SetUp() override { stand_in().set_devices(2); }
  void TearDown() override { stand_in().set_devices(1); }
  const ScopedSetting quiet_{"TUTTI_LOG", "error"};
};

TEST_F(DeviceChoice, TheConfigsComesBeforeTheThreads) {
  const tuttiConfig_t config = on_device(1);
  run_threads(
      2,
      [](tuttiComm_t comm, int) {
        StandInDriver::use(0);
        EXPECT_EQ(device_transport(comm), "cuda");
        EXPECT_EQ(reduce_on(0, comm), tuttiInvalidArgument);
        EXPECT_TRUE(contains(tuttiGetLastError(comm), "the rank uses device 1")) << tuttiGetLastError(comm);
        EXPECT_EQ(reduce_on(1, comm), tuttiSuccess) << tuttiGetLastError(comm);
        EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
      },
      &config);
}

// Host buffers need no kernels, and device buffers of whoever has them all the same go through host memory.
TEST_F(DeviceChoice, NoneMakesNoKernelsAndItsSplitsMayHaveOne) {
  const tuttiConfig_t config = on_device(TUTTI_NO_DEVICE);
  const std::size_t launches = stand_in().launches();
  run_threads(
      2,
      [launches](tuttiComm_t comm, int rank) {
        EXPECT_TRUE(contains(device_transport(comm), "staged")) << device_transport(comm);
        EXPECT_EQ(reduce_on(1, comm), tuttiSuccess) << tuttiGetLastError(comm);
        EXPECT_EQ(stand_in().launches(), launches);
        uint64_t bytes = 1;
        EXPECT_EQ(tuttiCommMemStats(comm, tuttiMemStatDevice, &bytes), tuttiSuccess);
        EXPECT_EQ(bytes, 0u);
        tuttiComm_t child = nullptr;
        const tuttiConfig_t childs = on_device(rank);
        ASSERT_EQ(tuttiCommSplit(comm, 0, rank, &child, &childs), tuttiSuccess) << tuttiGetLastError(comm);
        EXPECT_EQ(device_transport(child), "cuda");
        EXPECT_EQ(reduce_on(rank, child), tuttiSuccess) << tuttiGetLastError(child);
        EXPECT_EQ(tuttiCommDestroy(child), tuttiSuccess);
        EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
      },
      &config);
}

// The setting is for communicators that have a device.
TEST_F(DeviceChoice, NoneHoldsWhereTheSettingAsksForKernels) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "cuda");
  const tuttiConfig_t config = on_device(TUTTI_NO_DEVICE);
  run_threads(
      2,
      [](tuttiComm_t comm, int) {
        float value = 1;
        EXPECT_EQ(tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
        EXPECT_EQ(value, 2);
        EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
      },
      &config);
}

TEST_F(DeviceChoice, WhatIsNoDeviceIsRefused) {
  tuttiUniqueId id;
  ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  tuttiComm_t comm = nullptr;
  tuttiConfig_t config = on_device(-2);
  EXPECT_EQ(tuttiCommInitRankConfig(&comm, 1, id, 0, &config), tuttiInvalidArgument);
  EXPECT_TRUE(contains(tuttiGetLastError(nullptr), "config.device is -2")) << tuttiGetLastError(nullptr);
  config.device = 2;
  EXPECT_EQ(tuttiCommInitRankConfig(&comm, 1, id, 0, &config), tuttiInvalidArgument);
  EXPECT_TRUE(contains(tuttiGetLastError(nullptr), "none of the devices 0 to 1")) << tuttiGetLastError(nullptr);
  stand_in().set_devices(0);
  EXPECT_EQ(tuttiCommInitRankConfig(&comm, 1, id, 0, &config), tuttiUnsupported);
  config.device = TUTTI_NO_DEVICE;
  ASSERT_EQ(tuttiCommInitRankConfig(&comm, 1, id, 0, &config), tuttiSuccess) << tuttiGetLastError(nullptr);
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
}

// Headers before there was `device` had a struct of 64 bytes, of which the last four were padding: zeros as a rule.
TEST_F(DeviceChoice, CallersOfEarlierHeadersChooseNone) {
  constexpr std::size_t kEarlierSize = 64;
  static_assert(offsetof(tuttiConfig_t, device) >= kEarlierSize);
  static_assert(sizeof(tuttiConfig_t) == offsetof(tuttiConfig_t, reserved2) + sizeof(int), "there is padding");
  stand_in().set_devices(0);
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.size = kEarlierSize;
  config.reserved = config.device = config.reserved2 = 0;
  tuttiUniqueId id;
  ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  tuttiComm_t comm = nullptr;
  ASSERT_EQ(tuttiCommInitRankConfig(&comm, 1, id, 0, &config), tuttiSuccess) << tuttiGetLastError(nullptr);
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
}

}  // namespace
}  // namespace tutti::test

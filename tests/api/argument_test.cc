// Calls that are refused: before anything is sent, with a text that names the argument, and the communicator stays
// usable.
// Covers comm/call/arguments.cc, comm/call/block_arguments.cc, comm/create_options.cc, comm/api/api_information.cc,
// comm/api/api_operations.cc, comm/api/last_error.cc, device/device_driver.cc, core/types.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "core/log.h"
#include "support/ranks.h"

namespace tutti::test {
namespace {

class Arguments : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(tuttiCommInitAll(&comm_, 1, nullptr), tuttiSuccess) << tuttiGetLastError(nullptr); }
  void TearDown() override {
    // Usable after every refusal.
    EXPECT_EQ(tuttiAllReduce(a_, b_, 8, tuttiFloat32, tuttiSum, comm_, nullptr), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm_), tuttiSuccess);
  }
  void refuses(tuttiResult_t result, tuttiResult_t expected, const char* words) {
    EXPECT_EQ(result, expected);
    EXPECT_NE(std::string(tuttiGetLastError(comm_)).find(words), std::string::npos) << tuttiGetLastError(comm_);
  }
  const ScopedSetting quiet_{"TUTTI_LOG", "error"};
  tuttiComm_t comm_ = nullptr;
  float a_[16] = {};
  float b_[16] = {};
};

TEST_F(Arguments, NullBuffersAreNamed) {
  refuses(tuttiAllReduce(nullptr, b_, 8, tuttiFloat32, tuttiSum, comm_, nullptr), tuttiInvalidArgument, "sendbuff");
  refuses(tuttiAllReduce(a_, nullptr, 8, tuttiFloat32, tuttiSum, comm_, nullptr), tuttiInvalidArgument, "recvbuff");
  EXPECT_EQ(tuttiAllReduce(nullptr, nullptr, 0, tuttiFloat32, tuttiSum, comm_, nullptr), tuttiSuccess);
}

TEST_F(Arguments, OverlapIsRefusedAndInPlaceIsNot) {
  refuses(tuttiAllReduce(a_, a_ + 1, 8, tuttiFloat32, tuttiSum, comm_, nullptr), tuttiInvalidArgument, "overlap");
  EXPECT_EQ(tuttiAllReduce(a_, a_, 8, tuttiFloat32, tuttiSum, comm_, nullptr), tuttiSuccess);
  EXPECT_EQ(tuttiAllReduce(a_, a_ + 8, 8, tuttiFloat32, tuttiSum, comm_, nullptr), tuttiSuccess);
}

TEST_F(Arguments, TypesOperationsRootsAndCountsAreChecked) {
  const auto type = [](int value) { return static_cast<tuttiDataType_t>(value); };
  const auto op = [](int value) { return static_cast<tuttiRedOp_t>(value); };
  refuses(tuttiAllReduce(a_, b_, 8, type(15), tuttiSum, comm_, nullptr), tuttiInvalidArgument, "datatype 15");
  refuses(tuttiAllReduce(a_, b_, 8, tuttiFloat32, op(8), comm_, nullptr), tuttiInvalidArgument, "op 8");
  refuses(tuttiAllReduce(a_, b_, 8, tuttiFloat32, tuttiBitAnd, comm_, nullptr), tuttiInvalidArgument, "bitand");
  refuses(tuttiAllReduce(a_, b_, 8, tuttiBool, tuttiAvg, comm_, nullptr), tuttiInvalidArgument, "avg");
  refuses(tuttiAllReduce(a_, b_, 8, tuttiFloat8e4m3, tuttiBitXor, comm_, nullptr), tuttiInvalidArgument, "bitxor");
  refuses(tuttiBroadcast(a_, b_, 8, tuttiFloat32, 1, comm_, nullptr), tuttiInvalidArgument, "root 1");
  refuses(tuttiReduce(a_, b_, 8, tuttiFloat32, tuttiSum, -1, comm_, nullptr), tuttiInvalidArgument, "root -1");
  refuses(tuttiAllReduce(a_, b_, ~size_t{0} / 2, tuttiFloat32, tuttiSum, comm_, nullptr), tuttiInvalidArgument,
          "count");
}

TEST_F(Arguments, WhatTakesNoCommunicatorIsAnsweredForEach) {
  refuses(tuttiGroupEnd(), tuttiInvalidUsage, "tuttiGroupStart");
  refuses(tuttiStreamSynchronize(nullptr), tuttiInvalidArgument, "stream");
  tuttiComm_t other = nullptr;
  ASSERT_EQ(tuttiCommInitAll(&other, 1, nullptr), tuttiSuccess);
  EXPECT_EQ(tuttiBroadcast(a_, b_, 8, tuttiFloat32, 1, other, nullptr), tuttiInvalidArgument);
  EXPECT_STREQ(tuttiGetLastError(comm_), "no error") << "that was another communicator's";
  EXPECT_EQ(tuttiCommDestroy(other), tuttiSuccess);
}

TEST_F(Arguments, Fp8Moves) { EXPECT_EQ(tuttiBroadcast(a_, b_, 8, tuttiFloat8e5m2, 0, comm_, nullptr), tuttiSuccess); }

TEST_F(Arguments, DeviceMemoryNeedsADevice) {
  void* memory = nullptr;
  const tuttiResult_t result = tuttiMemAllocDevice(&memory, 8, 0);
  if (result == tuttiSuccess) {
    EXPECT_EQ(tuttiMemFree(memory), tuttiSuccess);
    GTEST_SKIP() << "this machine has a device";
  }
  EXPECT_EQ(result, tuttiUnsupported);
  EXPECT_NE(std::string(tuttiGetLastError(nullptr)).find("no device"), std::string::npos);
}

TEST_F(Arguments, UserOperationsAreChecked) {
  tuttiRedOp_t op;
  float scalar = 2;
  refuses(tuttiRedOpCreatePreMulSum(&op, nullptr, tuttiFloat32, tuttiScalarHostImmediate, comm_), tuttiInvalidArgument,
          "scalar");
  refuses(tuttiRedOpCreateCustom(&op, nullptr, 1, nullptr, comm_), tuttiInvalidArgument, "fn");
  refuses(tuttiRedOpDestroy(tuttiSum, comm_), tuttiInvalidArgument, "op 0");
  ASSERT_EQ(tuttiRedOpCreatePreMulSum(&op, &scalar, tuttiFloat32, tuttiScalarHostImmediate, comm_), tuttiSuccess);
  refuses(tuttiAllReduce(a_, b_, 1, tuttiFloat64, op, comm_, nullptr), tuttiInvalidArgument, "float32");
  EXPECT_EQ(tuttiRedOpDestroy(op, comm_), tuttiSuccess);
  refuses(tuttiRedOpDestroy(op, comm_), tuttiInvalidArgument, "not made");
  refuses(tuttiAllReduce(a_, b_, 1, tuttiFloat32, op, comm_, nullptr), tuttiInvalidArgument, "op 8");
}

TEST_F(Arguments, BlocksAreChecked) {
  const size_t one = 1, zero = 0, two = 2, huge = ~size_t{0} / 2;
  refuses(tuttiAllGatherV(a_, b_, 1, nullptr, &zero, tuttiFloat32, comm_, nullptr), tuttiInvalidArgument, "NULL");
  refuses(tuttiAllGatherV(a_, b_, 1, &two, &zero, tuttiFloat32, comm_, nullptr), tuttiInvalidArgument, "sends itself");
  refuses(tuttiAllGatherV(a_, nullptr, 1, &one, &zero, tuttiFloat32, comm_, nullptr), tuttiInvalidArgument, "recvbuff");
  refuses(tuttiAllToAllV(a_, &one, &huge, b_, &one, &zero, tuttiFloat32, comm_, nullptr), tuttiInvalidArgument,
          "memory");
  refuses(tuttiAllToAllV(a_, &one, &zero, a_, &one, &zero, tuttiFloat32, comm_, nullptr), tuttiInvalidArgument,
          "overlap");
  EXPECT_EQ(tuttiAllGatherV(a_, a_, 1, &one, &zero, tuttiFloat32, comm_, nullptr), tuttiSuccess) << "in place";
}

TEST_F(Arguments, HandlesAreChecked) {
  EXPECT_EQ(tuttiAllReduce(a_, b_, 8, tuttiFloat32, tuttiSum, nullptr, nullptr), tuttiInvalidArgument);
  EXPECT_EQ(tuttiCommDestroy(nullptr), tuttiInvalidArgument);
  EXPECT_EQ(tuttiCommCount(comm_, nullptr), tuttiInvalidArgument);
  EXPECT_EQ(tuttiStreamSynchronize(nullptr), tuttiInvalidArgument);
  EXPECT_EQ(tuttiCommInitRank(nullptr, 1, tuttiUniqueId{}, 0), tuttiInvalidArgument);
  tuttiComm_t comm = comm_;
  EXPECT_EQ(tuttiCommInitRank(&comm, 1, tuttiUniqueId{}, 0), tuttiInvalidArgument);
  EXPECT_EQ(comm, nullptr) << "a failed join sets its communicator to NULL";
}

TEST_F(Arguments, ConfigsAreChecked) {
  tuttiUniqueId id;
  ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  tuttiComm_t comm = nullptr;
  config.magic = 1;
  EXPECT_EQ(tuttiCommInitRankConfig(&comm, 1, id, 0, &config), tuttiInvalidArgument);
  config = TUTTI_CONFIG_INITIALIZER;
  config.blocking = 7;
  EXPECT_EQ(tuttiCommInitRankConfig(&comm, 1, id, 0, &config), tuttiInvalidArgument);
  config = TUTTI_CONFIG_INITIALIZER;
  config.wireType = tuttiInt8;
  EXPECT_EQ(tuttiCommInitRankConfig(&comm, 1, id, 0, &config), tuttiInvalidArgument);
  config = TUTTI_CONFIG_INITIALIZER;
  config.commName = "named";
  config.timeoutSeconds = 2.5;
  EXPECT_EQ(tuttiCommInitRankConfig(&comm, 1, id, 0, &config), tuttiSuccess) << tuttiGetLastError(nullptr);
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
}

TEST_F(Arguments, InformationIsThere) {
  int value = -1;
  EXPECT_EQ(tuttiGetVersion(&value), tuttiSuccess);
  EXPECT_EQ(value, TUTTI_VERSION_CODE);
  EXPECT_EQ(tuttiCommCount(comm_, &value), tuttiSuccess);
  EXPECT_EQ(value, 1);
  char text[64];
  EXPECT_EQ(tuttiCommGetInfo(comm_, "transport", text, sizeof text), tuttiSuccess);
  EXPECT_STREQ(text, "shm");
  EXPECT_EQ(tuttiCommGetInfo(comm_, "algorithm:all_reduce:1024", text, sizeof text), tuttiSuccess);
  EXPECT_STRNE(text, "");
  EXPECT_EQ(tuttiCommGetInfo(comm_, "algorithm:nothing:1024", text, sizeof text), tuttiInvalidArgument);
  EXPECT_EQ(tuttiCommGetInfo(comm_, "transport", text, 3), tuttiInvalidArgument);
  EXPECT_STREQ(text, "sh") << "what does not fit is cut";
  EXPECT_NE(std::string(tuttiGetLastError(comm_)).find("4 bytes"), std::string::npos) << tuttiGetLastError(comm_);
  EXPECT_EQ(tuttiCommGetInfo(comm_, "transport", text, 0), tuttiInvalidArgument);
  EXPECT_STREQ(text, "sh") << "nothing is written";
  std::uint64_t bytes = 0;
  EXPECT_EQ(tuttiCommMemStats(comm_, tuttiMemStatShared, &bytes), tuttiSuccess);
  EXPECT_GT(bytes, 0u);
  void* memory = nullptr;
  EXPECT_EQ(tuttiMemAlloc(&memory, 100), tuttiSuccess);
  EXPECT_EQ(static_cast<char*>(memory)[99], 0);
  EXPECT_EQ(tuttiMemFree(memory), tuttiSuccess);
  const char *name, *now, *initial, *meaning;
  int settings = 0;
  while (tuttiSettingInfo(settings, &name, &now, &initial, &meaning) == tuttiSuccess) ++settings;
  EXPECT_GT(settings, 10);
  for (int code = 0; code <= 11; ++code) EXPECT_STRNE(tuttiGetErrorString(static_cast<tuttiResult_t>(code)), "");
}

TEST(Settings, BadValuesNameTheVariable) {
  const ScopedSetting setting("TUTTI_TIMEOUT", "soon");
  tuttiComm_t comm = nullptr;
  EXPECT_EQ(tuttiCommInitAll(&comm, 1, nullptr), tuttiInvalidArgument);
  EXPECT_NE(std::strstr(tuttiGetLastError(nullptr), "TUTTI_TIMEOUT"), nullptr) << tuttiGetLastError(nullptr);
  EXPECT_EQ(comm, nullptr);
}

TEST(Settings, WhatIsNotThereIsRefused) {
  const ScopedSetting setting("TUTTI_SELFTEST", "1");
  tuttiComm_t comm = nullptr;
  EXPECT_EQ(tuttiCommInitAll(&comm, 1, nullptr), tuttiUnsupported);
}

TEST(Settings, EncryptionIsASwitch) {
  tuttiComm_t comm = nullptr;
  {
    const ScopedSetting setting("TUTTI_TLS", "yes please");
    EXPECT_EQ(tuttiCommInitAll(&comm, 1, nullptr), tuttiInvalidArgument);
  }
  const ScopedSetting setting("TUTTI_TLS", "on");
  EXPECT_EQ(tuttiCommInitAll(&comm, 1, nullptr), tuttiSuccess) << tuttiGetLastError(nullptr);
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
}

TEST(Settings, MisspeltNamesAreWarnedOf) {
  static std::vector<std::string> lines;
  const ScopedSetting setting("TUTTI_TIMEOOT", "1");
  tuttiSetLogCallback([](int, const char* line, void*) { lines.emplace_back(line); }, nullptr);
  tuttiComm_t comm = nullptr;
  ASSERT_EQ(tuttiCommInitAll(&comm, 1, nullptr), tuttiSuccess);
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  EXPECT_TRUE(log_drain(kPatience));
  tuttiSetLogCallback(nullptr, nullptr);
  bool warned = false;
  for (const std::string& line : lines) warned = warned || line.find("TUTTI_TIMEOOT") != std::string::npos;
  EXPECT_TRUE(warned);
}

TEST(AloneConfig, ABlockingOfZeroIsLoggedOnce) {
  std::atomic<int> lines{0};
  const auto count = [](int, const char* line, void* user) {
    if (std::strstr(line, "config.blocking = 0") != nullptr) ++*static_cast<std::atomic<int>*>(user);
  };
  ASSERT_EQ(tuttiSetLogCallback(count, &lines), tuttiSuccess);
  for (int round = 0; round < 2; ++round) {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.blocking = 0;
    tuttiUniqueId id;
    tuttiComm_t comm = nullptr;
    ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
    ASSERT_EQ(tuttiCommInitRankConfig(&comm, 1, id, 0, &config), tuttiSuccess) << tuttiGetLastError(nullptr);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  }
  EXPECT_EQ(tuttiSetLogCallback(nullptr, nullptr), tuttiSuccess);
  EXPECT_EQ(lines, 1);
}

}  // namespace
}  // namespace tutti::test

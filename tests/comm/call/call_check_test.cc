// Covers comm/call/call_check.cc, comm/call/user_operation.cc: what a communicator adds to a call's arguments, and what
// it refuses.
#include "comm/call/call_check.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace tutti {
namespace {

CallArguments all_reduce_of(float* data, std::size_t count) {
  CallArguments arguments;
  arguments.collective = Collective::kAllReduce;
  arguments.send = arguments.recv = data;
  arguments.count = count;
  arguments.type = static_cast<int>(DataType::kFloat32);
  arguments.op = static_cast<int>(RedOp::kSum);
  return arguments;
}

class CallChecks : public ::testing::Test {
 protected:
  Settings settings_;
  std::array<float, 4> data_{};
};

TEST_F(CallChecks, TheWireTypeOfTheCommunicatorIsForPlainFloats) {
  settings_.wire_type = static_cast<int>(DataType::kBfloat16);
  const CallCheck check(settings_, Rank{1}, 3);
  CallArguments plain = all_reduce_of(data_.data(), 4);
  EXPECT_TRUE(check.resolve_and_check(&plain).ok());
  EXPECT_EQ(plain.wire, settings_.wire_type);
  CallArguments own = all_reduce_of(data_.data(), 4);
  own.wire = CallArguments::kNoWire;
  EXPECT_TRUE(check.resolve_and_check(&own).ok());
  EXPECT_EQ(own.wire, CallArguments::kNoWire) << "the call says what it wants";
  CallArguments integers = all_reduce_of(data_.data(), 4);
  integers.type = static_cast<int>(DataType::kInt32);
  EXPECT_TRUE(check.resolve_and_check(&integers).ok());
  EXPECT_EQ(integers.wire, CallArguments::kDefaultWire);
}

TEST_F(CallChecks, TheDeterministicModeHasNoWireType) {
  settings_.deterministic = true;
  const CallCheck check(settings_, Rank{1}, 3);
  CallArguments arguments = all_reduce_of(data_.data(), 4);
  EXPECT_TRUE(check.resolve_and_check(&arguments).ok());
  arguments.wire = static_cast<int>(DataType::kFloat16);
  EXPECT_EQ(check.resolve_and_check(&arguments).code(), Code::kInvalidArgument);
}

TEST_F(CallChecks, OperationsOfTheUserAreFoundByTheirNumber) {
  CallCheck check(settings_, Rank{1}, 3);
  UserOperation twice;
  twice.scalar_type = DataType::kFloat32;
  const int number = check.operations().add(twice);
  CallArguments arguments = all_reduce_of(data_.data(), 4);
  arguments.op = number;
  EXPECT_TRUE(check.resolve_and_check(&arguments).ok());
  ASSERT_NE(arguments.user, nullptr);
  EXPECT_EQ(arguments.agreed, twice.kind());
  EXPECT_TRUE(check.operations().remove(number));
  CallArguments late = all_reduce_of(data_.data(), 4);
  late.op = number;
  EXPECT_EQ(check.resolve_and_check(&late).code(), Code::kInvalidArgument);
}

TEST_F(CallChecks, ATransferNeedsAPeerATypeAndMemory) {
  const CallCheck check(settings_, Rank{1}, 3);
  Transfer transfer;
  transfer.peer = Rank{2};
  transfer.type = DataType::kFloat32;
  transfer.data = reinterpret_cast<std::byte*>(data_.data());
  transfer.count = Elems{4};
  EXPECT_TRUE(check.check(transfer).ok());
  Transfer stranger = transfer;
  stranger.peer = Rank{3};
  EXPECT_EQ(check.check(stranger).code(), Code::kInvalidArgument);
  stranger.peer = kNoRank;
  EXPECT_FALSE(check.check(stranger).ok()) << "nobody can be sent to";
  stranger.kind = Transfer::Kind::kReceive;
  EXPECT_TRUE(check.check(stranger).ok()) << "but anybody received from";
  Transfer nowhere = transfer;
  nowhere.data = nullptr;
  EXPECT_FALSE(check.check(nowhere).ok());
  nowhere.count = Elems{0};
  EXPECT_TRUE(check.check(nowhere).ok());
  Transfer huge = transfer;
  huge.count = Elems{SIZE_MAX / 4};
  EXPECT_FALSE(check.check(huge).ok());
}

}  // namespace
}  // namespace tutti

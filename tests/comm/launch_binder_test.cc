// Covers comm/launch_binder.cc: what a launch holds of its call, and which calls are the last one again.
#include "comm/launch_binder.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

namespace tutti {
namespace {

constexpr int kBoundRanks = 4;

class LaunchBinders : public ::testing::Test {
 protected:
  LaunchBinders() {
    Machine machine;
    machine.ranks = kBoundRanks;
    make_binder(machine, "all_pairs");
  }

  /// Rank 1's.
  void make_binder(const Machine& machine, const char* algorithm) {
    settings_.algorithm = algorithm;
    binder_ = std::make_unique<LaunchBinder>(settings_, std::make_shared<const AutomaticChoice>(machine), Rank{1},
                                             machine.ranks, machine.network ? machine.ranks - 1 : 0, LogSource{});
  }

  CallArguments reduction(Collective collective = Collective::kAllReduce, int root = -1) {
    CallArguments arguments;
    arguments.collective = collective;
    arguments.send = input_.data();
    arguments.recv = output_.data();
    arguments.count = 3;
    arguments.type = static_cast<int>(DataType::kFloat32);
    arguments.op = static_cast<int>(RedOp::kSum);
    arguments.root = root;
    return arguments;
  }
  const Launch& bind(const CallArguments& arguments) {
    describe_call(arguments, ++number_, &call_);
    const Bytes block = binder_->bind(arguments, call_, &binder_->plans());
    binder_->bind_host_buffers(arguments, call_, block);
    return binder_->launch();
  }

  Settings settings_;
  std::unique_ptr<LaunchBinder> binder_;
  std::array<float, 16> input_{}, output_{};
  std::uint64_t number_ = 0;
  Call call_;
};

TEST_F(LaunchBinders, TheLaunchHoldsBuffersSizesAndTheFingerprint) {
  CallArguments average = reduction();
  average.op = static_cast<int>(RedOp::kAvg);
  const Launch& launch = bind(average);
  EXPECT_EQ(launch.input, reinterpret_cast<const std::byte*>(input_.data()));
  EXPECT_EQ(launch.output, reinterpret_cast<std::byte*>(output_.data()));
  EXPECT_EQ(launch.count, Elems{3});
  EXPECT_EQ(launch.element, Bytes{4});
  EXPECT_EQ(launch.type, DataType::kFloat32);
  EXPECT_EQ(launch.op, RedOp::kAvg);
  EXPECT_EQ(launch.divisor, static_cast<std::uint32_t>(kBoundRanks));
  EXPECT_EQ(launch.fingerprint, fingerprint_of(call_));
  ASSERT_NE(launch.schedule, nullptr);
  EXPECT_STREQ(launch.schedule->algorithm->name, "all_pairs");
  EXPECT_EQ(launch.schedule->shape.rank, 1);
}

TEST_F(LaunchBinders, ARepeatedCallGetsNewBuffersAndANewFingerprintOnly) {
  const Launch& launch = bind(reduction());
  CallArguments again = reduction();
  ASSERT_TRUE(binder_->is_repeat(again, call_));
  EXPECT_TRUE(binder_->has_same_buffers(again));
  again.send = again.recv = output_.data();
  ASSERT_TRUE(binder_->is_repeat(again, call_));
  EXPECT_FALSE(binder_->has_same_buffers(again)) << "which are to be checked";
  const Schedule* const schedule = launch.schedule;
  const Fingerprint before = launch.fingerprint;
  call_.sequence = ++number_;
  binder_->bind_again(again, call_);
  EXPECT_EQ(launch.input, reinterpret_cast<const std::byte*>(output_.data()));
  EXPECT_EQ(launch.output, reinterpret_cast<std::byte*>(output_.data()));
  EXPECT_EQ(launch.schedule, schedule);
  EXPECT_NE(launch.fingerprint, before);
}

TEST_F(LaunchBinders, WhatDiffersIsNoRepeat) {
  EXPECT_FALSE(binder_->is_repeat(reduction(), call_)) << "there was no call";
  bind(reduction());
  CallArguments other = reduction();
  other.count = 4;
  EXPECT_FALSE(binder_->is_repeat(other, call_));
  other = reduction();
  other.op = static_cast<int>(RedOp::kMax);
  EXPECT_FALSE(binder_->is_repeat(other, call_));
  other = reduction();
  other.type = static_cast<int>(DataType::kInt32);
  EXPECT_FALSE(binder_->is_repeat(other, call_));
  EXPECT_FALSE(binder_->is_repeat(reduction(Collective::kReduceScatter), call_));
  binder_->forget();
  EXPECT_FALSE(binder_->is_repeat(reduction(), call_));
}

TEST_F(LaunchBinders, RootsTakeTurnsOnceTheyHaveTheirPlans) {
  bind(reduction(Collective::kReduce, 0));
  const Schedule* const first = binder_->launch().schedule;
  EXPECT_FALSE(binder_->is_repeat(reduction(Collective::kReduce, 1), call_)) << "that root has no plan yet";
  bind(reduction(Collective::kReduce, 1));
  EXPECT_NE(binder_->launch().schedule, first);
  const CallArguments back = reduction(Collective::kReduce, 0);
  ASSERT_TRUE(binder_->is_repeat(back, call_));
  EXPECT_FALSE(binder_->has_same_root(back));
  binder_->change_root(back, &call_);
  EXPECT_EQ(call_.root, Rank{0});
  EXPECT_EQ(binder_->launch().schedule, first);
}

TEST_F(LaunchBinders, LargeCallsAreBoundAnew) {
  std::vector<float> large(std::size_t{64} << 10);
  CallArguments arguments = reduction();
  arguments.send = arguments.recv = large.data();
  arguments.count = large.size();
  bind(arguments);
  EXPECT_FALSE(binder_->is_repeat(arguments, call_));
}

TEST_F(LaunchBinders, OnePassServesOneTileOfMessagesInTheBuffersType) {
  std::vector<float> large(std::size_t{128} << 10);
  CallArguments arguments = reduction();
  EXPECT_TRUE(bind(arguments).one_pass);
  arguments.wire = static_cast<int>(DataType::kBfloat16);
  EXPECT_FALSE(bind(arguments).one_pass);
  arguments = reduction();
  arguments.send = arguments.recv = large.data();
  arguments.count = std::size_t{64} << 10;
  EXPECT_TRUE(bind(arguments).one_pass) << "256 KiB";
  arguments.count += 16;
  EXPECT_FALSE(bind(arguments).one_pass) << "two tiles";
  arguments.count = std::size_t{32} << 10;
  arguments.recv = large.data() + arguments.count;
  EXPECT_TRUE(bind(arguments).one_pass);
  binder_->registered().add(large.data(), large.size() * sizeof(float));
  EXPECT_FALSE(bind(arguments).one_pass) << "peers read the input itself";
}

TEST_F(LaunchBinders, OnePassIsAQuestionOfTheRoot) {
  Machine machine;
  machine.ranks = 8;
  make_binder(machine, "tree");
  EXPECT_TRUE(bind(reduction(Collective::kReduce, 0)).one_pass) << "rank 1 is a leaf of the tree to rank 0";
  EXPECT_FALSE(bind(reduction(Collective::kReduce, 5)).one_pass) << "and adds what two others have, in scratch";
  for (const int root : {0, 5, 0}) {
    const CallArguments back = reduction(Collective::kReduce, root);
    ASSERT_TRUE(binder_->is_repeat(back, call_));
    binder_->change_root(back, &call_);
    EXPECT_EQ(binder_->launch().one_pass, root == 0);
  }
}

TEST_F(LaunchBinders, OverTcpMessagesOfOnePassAreCopiedUpToALimit) {
  Machine machine;
  machine.network = true;
  machine.max_message = Bytes{std::size_t{512} << 10};
  std::vector<float> large(std::size_t{4} << 20), result(large.size());
  const auto lends = [&](int ranks, Collective collective, std::size_t block) {
    machine.ranks = ranks;
    make_binder(machine, "all_pairs");
    CallArguments arguments = reduction(collective, collective == Collective::kBroadcast ? 1 : -1);
    arguments.send = large.data();
    arguments.recv = result.data();
    arguments.count = block / sizeof(float);
    const Launch& launch = bind(arguments);
    EXPECT_NE(launch.lends, launch.one_pass);
    return launch.lends;
  };
  constexpr std::size_t kKiB = 1024;
  EXPECT_FALSE(lends(4, Collective::kBroadcast, 64 * kKiB));
  EXPECT_FALSE(lends(4, Collective::kBroadcast, 512 * kKiB));
  EXPECT_TRUE(lends(4, Collective::kBroadcast, 1024 * kKiB)) << "two tiles";
  EXPECT_FALSE(lends(5, Collective::kAllToAll, 256 * kKiB)) << "4 messages, 1 MiB";
  EXPECT_TRUE(lends(6, Collective::kAllToAll, 256 * kKiB));
}

}  // namespace
}  // namespace tutti

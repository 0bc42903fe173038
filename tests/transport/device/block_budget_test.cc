// Covers transport/device/block_budget.cc.
// Several communicators on one device: their kernels wait for peers while they run, so all must fit side by side.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/device/device_vector.h"
#include "support/ranks.h"
#include "support/texts.h"
#include "transport/device/block_budget.h"

namespace tutti::test {
namespace {

BlockClaim claim_of(int gpu, std::uint32_t ranks, int processors = 132, int connections = 8) {
  BlockClaim claim;
  claim.card.identity.uuid[0] = static_cast<std::byte>(gpu);
  claim.card.limits = {processors, connections};
  claim.ranks = ranks;
  return claim;
}

TEST(DeviceBudgets, TheFirstGetsWhatItCanUseAndLaterOnesHalfOfWhatIsLeft) {
  BlockBudget budget;
  const auto take = [&](std::uint32_t ranks) {
    std::uint32_t blocks = 32;
    EXPECT_TRUE(budget.take({claim_of(0, ranks)}, &blocks).ok());
    return blocks;
  };
  EXPECT_EQ(take(4), 26u) << "a fifth is left";
  EXPECT_EQ(take(2), 7u);
  EXPECT_EQ(take(2), 3u);
  budget.give_back({claim_of(0, 2)}, 3);
  budget.give_back({claim_of(0, 4)}, 26);
  EXPECT_EQ(take(2), 29u) << "half of 118 for two";
  budget.give_back({claim_of(0, 2)}, 29);
  budget.give_back({claim_of(0, 2)}, 7);
  std::vector<std::uint32_t> each;
  for (int i = 0; i < 8; ++i) each.push_back(take(1));
  EXPECT_EQ(each, (std::vector<std::uint32_t>{32, 32, 32, 18, 9, 4, 2, 1}));
}

TEST(DeviceBudgets, TheFirstThatAsksForAllLeavesBlocksToUse) {
  BlockBudget budget;
  std::vector<std::uint32_t> each;
  for (int i = 0; i < 3; ++i) {
    std::uint32_t blocks = 64;
    ASSERT_TRUE(budget.take({claim_of(0, 2)}, &blocks).ok());
    each.push_back(blocks);
  }
  EXPECT_EQ(each, (std::vector<std::uint32_t>{53, 6, 3}));
}

TEST(DeviceBudgets, WhatDoesNotFitTakesNothing) {
  BlockBudget budget;
  std::uint32_t blocks = 32;
  ASSERT_TRUE(budget.take({claim_of(1, 6)}, &blocks).ok());
  Status refused = budget.take({claim_of(2, 1), claim_of(1, 3)}, &blocks);
  EXPECT_EQ(refused.code(), Code::kUnsupported);
  EXPECT_TRUE(contains(refused.text(), "6 of the 8 streams")) << refused.text();
  blocks = 32;
  ASSERT_TRUE(budget.take({claim_of(2, 4)}, &blocks).ok());
  EXPECT_EQ(blocks, 26u) << "the refused one has left something";
  blocks = 32;
  ASSERT_TRUE(budget.take({claim_of(3, 4, 8, 32)}, &blocks).ok());
  EXPECT_EQ(blocks, 1u);
  ASSERT_TRUE(budget.take({claim_of(3, 4, 8, 32)}, &blocks).ok());
  refused = budget.take({claim_of(3, 2, 8, 32)}, &blocks);
  EXPECT_EQ(refused.code(), Code::kUnsupported);
  EXPECT_TRUE(contains(refused.text(), "8 of the 8 thread blocks")) << refused.text();
}

// As programs have them that make a communicator for each of their groups.
TEST(DeviceBudgets, OfRanksAloneOnTheirDevicesNoneIsRefused) {
  BlockBudget budget;
  for (int i = 0; i < 200; ++i) {
    std::uint32_t blocks = 32;
    ASSERT_TRUE(budget.take({claim_of(0, 1), claim_of(1, 1)}, &blocks).ok()) << i;
    EXPECT_GE(blocks, 1u);
  }
}

TEST(DeviceBudgets, AShareIsTakenOnceAndGivenBack) {
  const auto budget = std::make_shared<BlockBudget>();
  for (int round = 0; round < 3; ++round) {
    BlockShare share(budget);
    for (int rank = 0; rank < 2; ++rank) {
      std::uint32_t blocks = 32;
      EXPECT_TRUE(share.take({claim_of(0, 8)}, &blocks).ok());
      EXPECT_EQ(blocks, 16u);
    }
    share.settle(2);
    share.settle(2);
    if (round == 1) share.give_back();
  }
}

/// Two ranks on one device, and a stream of the caller's for each.
class Pair {
 public:
  static constexpr std::size_t kCount = 300'000;
  Pair() {
    const int devices[2] = {0, 0};
    result_ = tuttiCommInitAll(comms_.data(), 2, devices);
    for (std::size_t rank = 0; rank < 2 && result_ == tuttiSuccess; ++rank) {
      EXPECT_EQ(tuttiCommSetTimeout(comms_[rank], kFarSeconds), tuttiSuccess);
      EXPECT_TRUE(stand_in().create_caller_stream(0, &cuda_[rank]).ok());
      EXPECT_EQ(tuttiStreamFromCuda(&streams_[rank], cuda_[rank]), tuttiSuccess);
      data_[rank] = std::make_unique<DeviceVector>(kCount, 1.0f);
    }
  }
  ~Pair() {
    for (std::size_t rank = 0; rank < 2 && result_ == tuttiSuccess; ++rank) {
      EXPECT_EQ(tuttiStreamDestroy(streams_[rank]), tuttiSuccess);
      EXPECT_TRUE(stand_in().destroy_stream(cuda_[rank]).ok());
    }
    std::vector<std::thread> ends;
    for (const tuttiComm_t comm : comms_)
      if (result_ == tuttiSuccess) ends.emplace_back([comm] { EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess); });
    for (std::thread& end : ends) end.join();
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  tuttiResult_t result() const { return result_; }
  void call(std::size_t rank) {
    float* const data = data_[rank]->data();
    EXPECT_EQ(tuttiAllReduce(data, data, kCount, tuttiFloat32, tuttiSum, comms_[rank], streams_[rank]), tuttiSuccess)
        << last_error(comms_[rank]);
  }
  void expect_sum(float sum) {
    for (std::size_t rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(tuttiStreamSynchronize(streams_[rank]), tuttiSuccess) << last_error(comms_[rank]);
      EXPECT_TRUE(data_[rank]->is(sum));
    }
  }

 private:
  tuttiResult_t result_ = tuttiSuccess;
  std::array<tuttiComm_t, 2> comms_{};
  std::array<DeviceDriver::Stream, 2> cuda_{};
  std::array<tuttiStream_t, 2> streams_{};
  std::array<std::unique_ptr<DeviceVector>, 2> data_;
};

class DeviceCrowds : public ::testing::Test {
 protected:
  void SetUp() override { stand_in().set_processors(32); }
  void TearDown() override { stand_in().set_processors(8); }
  const ScopedSetting transport_{"TUTTI_TRANSPORT", "cuda"};
  const ScopedSetting quiet_{"TUTTI_LOG", "error"};
};

// The first ranks of all begin before any second one: with as many blocks as a single communicator may have, two
// kernels fill the device, and what they wait for never begins.
TEST_F(DeviceCrowds, KernelsOfSeveralCommunicatorsRunSideBySide) {
  std::vector<std::unique_ptr<Pair>> pairs;
  for (int i = 0; i < 4; ++i) pairs.push_back(std::make_unique<Pair>());
  for (const auto& pair : pairs) ASSERT_EQ(pair->result(), tuttiSuccess) << last_error();
  for (const float sum : {2.0f, 4.0f}) {
    for (const std::size_t rank : {std::size_t{0}, std::size_t{1}})
      for (const auto& pair : pairs) pair->call(rank);
    for (const auto& pair : pairs) pair->expect_sum(sum);
  }
}

TEST_F(DeviceCrowds, WhatDoesNotFitIsRefusedUntilAnotherOneHasEnded) {
  if (stand_in().is_strict()) stand_in().set_connections(8);
  std::vector<std::unique_ptr<Pair>> pairs;
  for (int i = 0; i < 4; ++i) pairs.push_back(std::make_unique<Pair>());
  EXPECT_EQ(Pair().result(), tuttiUnsupported);
  EXPECT_TRUE(
      contains(last_error(), "TUTTI_TRANSPORT=cuda: other communicators of the process have 8 of the 8 streams"))
      << last_error();
  EXPECT_TRUE(contains(last_error(), "CUDA_DEVICE_MAX_CONNECTIONS")) << last_error();
  pairs.erase(pairs.begin());
  Pair next;
  ASSERT_EQ(next.result(), tuttiSuccess) << last_error();
  for (const std::size_t rank : {std::size_t{0}, std::size_t{1}}) next.call(rank);
  next.expect_sum(2.0f);
}

TEST_F(DeviceCrowds, WhatDoesNotFitGoesThroughHostMemory) {
  std::vector<std::unique_ptr<Pair>> pairs;
  for (int i = 0; i < 4; ++i) pairs.push_back(std::make_unique<Pair>());
  const ScopedSetting transport("TUTTI_TRANSPORT", "auto");
  const std::size_t launches = stand_in().launches();
  Pair staged;
  ASSERT_EQ(staged.result(), tuttiSuccess) << last_error();
  for (const std::size_t rank : {std::size_t{0}, std::size_t{1}}) staged.call(rank);
  staged.expect_sum(2.0f);
  EXPECT_EQ(stand_in().launches(), launches);
}

}  // namespace
}  // namespace tutti::test

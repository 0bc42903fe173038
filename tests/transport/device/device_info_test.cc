// Covers transport/device/device_info.cc.
// What ranks tell one another of their devices, and what follows from it.
#include "transport/device/device_info.h"

#include <gtest/gtest.h>

namespace tutti::test {
namespace {

DeviceInfo card_of(int gpu, bool mps = false) {
  DeviceInfo card;
  card.identity.uuid[5] = static_cast<std::byte>(gpu);
  card.identity.concurrent_processes = mps;
  card.limits = {132, 8};
  return card;
}

TEST(DeviceCards, ComeBackAsTheyWere) {
  DeviceInfo card;
  ASSERT_TRUE(DeviceInfo::decode(card_of(7, true).encode(), &card).ok());
  EXPECT_TRUE(card.same_device(card_of(7)));
  EXPECT_FALSE(card.same_device(card_of(8)));
  EXPECT_TRUE(card.identity.concurrent_processes);
  EXPECT_EQ(card.limits.processors, 132);
  EXPECT_EQ(card.limits.connections, 8);
}

TEST(DeviceCards, OnlyWholeAndSaneOnesAreRead) {
  const std::string good = card_of(1).encode();
  DeviceInfo card;
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_EQ(DeviceInfo::decode(good.substr(0, size), &card).code(), Code::kRemoteError) << size;
  EXPECT_FALSE(DeviceInfo::decode(good + "x", &card).ok());
  for (std::size_t at = 16; at < good.size(); ++at) {  // after the UUID are numbers, which this makes huge
    std::string bad = good;
    bad[at] = '\xff';
    if (at % 4 == 3) {
      EXPECT_FALSE(DeviceInfo::decode(bad, &card).ok()) << at;
    }
  }
  DeviceInfo none = card_of(1);
  none.limits = {0, 8};
  EXPECT_FALSE(DeviceInfo::decode(none.encode(), &card).ok());
}

TEST(DeviceParties, ProcessesShareAGpuUnderMpsOnly) {
  DevicePeers peers{{card_of(0), card_of(1), card_of(0)}, {0, 1, 0}};
  EXPECT_TRUE(peers.check_concurrency().ok());
  EXPECT_TRUE(peers.many_devices());
  EXPECT_FALSE(peers.single_process());
  EXPECT_EQ(peers.sharing(2, true), 2);
  peers.processes = {0, 1, 1};
  EXPECT_EQ(peers.check_concurrency().code(), Code::kUnsupported);
  EXPECT_EQ(peers.sharing(2, true), 1);
  EXPECT_EQ(peers.sharing(2, false), 2);
  peers.cards[0].identity.concurrent_processes = true;
  EXPECT_FALSE(peers.check_concurrency().ok()) << "one of the two is not under MPS";
  peers.cards[2].identity.concurrent_processes = true;
  EXPECT_TRUE(peers.check_concurrency().ok());
}

TEST(DeviceParties, RanksOfAProcessAreBoundByItsStreams) {
  DevicePeers peers{std::vector<DeviceInfo>(9, card_of(0, true)), {0, 0, 0, 0, 0, 0, 0, 0, 1}};
  EXPECT_TRUE(peers.check_concurrency().ok());
  peers.processes[8] = 0;
  EXPECT_EQ(peers.check_concurrency().code(), Code::kUnsupported);
  peers = DevicePeers{std::vector<DeviceInfo>(17, card_of(0, true)), {}};
  for (int rank = 0; rank < 17; ++rank) peers.processes.push_back(rank);
  EXPECT_EQ(peers.check_concurrency().code(), Code::kUnsupported);
}

TEST(DeviceParties, RanksHaveAsManyBlocksAsAreResidentTogether) {
  DevicePeers peers{{card_of(0), card_of(1)}, {0, 0}};
  EXPECT_EQ(peers.most_blocks(), 32u) << "more than links between devices need";
  peers = DevicePeers{{card_of(0), card_of(0)}, {0, 0}};
  EXPECT_EQ(peers.most_blocks(), 64u);
  peers.processes = {0, 1};
  EXPECT_EQ(peers.most_blocks(), 33u) << "a second communicator of the same processes must fit";
  peers = DevicePeers{std::vector<DeviceInfo>(4, card_of(0)), {0, 1, 2, 3}};
  EXPECT_EQ(peers.most_blocks(), 16u) << "so must one of four";
  peers = DevicePeers{std::vector<DeviceInfo>(4, card_of(0)), {0, 0, 0, 0}};
  EXPECT_EQ(peers.most_blocks(), 33u) << "a quarter of 132 multiprocessors";
  peers.cards.push_back(card_of(1));
  peers.processes.push_back(0);
  EXPECT_EQ(peers.most_blocks(), 32u) << "all ranks have as many";
  peers = DevicePeers{std::vector<DeviceInfo>(8, card_of(0)), std::vector<int>(8, 0)};
  EXPECT_EQ(peers.most_blocks(), 16u);
}

}  // namespace
}  // namespace tutti::test

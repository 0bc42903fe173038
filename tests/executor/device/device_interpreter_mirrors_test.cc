// Covers executor/device/device_interpreter.h, executor/device/device_port.h.
// Messages to all that are announced in mirrors: the interpreter by itself, with stores that all ranks' mirrors get.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "collectives/choice/catalogue.h"
#include "support/device/device_trial.h"
#include "support/sanitized.h"

namespace tutti::test {
namespace {

/// Small rings, so that they wrap and credits run out.
DeviceGeometry small_geometry(int ranks, std::uint32_t blocks) {
  DeviceGeometry geometry;
  geometry.ranks = ranks;
  geometry.blocks = blocks;
  geometry.cell_bytes = 256;
  geometry.slot_bytes = 4096;
  return geometry;
}

bool sends_to_all(const Algorithm& algorithm, int ranks) {
  const Schedule schedule = build_schedule(algorithm, Shape{ranks, 0, 0, 1, nullptr});
  return std::any_of(schedule.steps.begin(), schedule.steps.end(),
                     [](const Step& step) { return step.has(kSend) && step.send_to == PeerSet::kAll; });
}

std::vector<const Algorithm*> algorithms_to_all() {
  std::vector<const Algorithm*> found;
  for (const Algorithm& algorithm : catalogue())
    if (sends_to_all(algorithm, 2)) found.push_back(&algorithm);
  return found;
}

class Mirrored : public ::testing::TestWithParam<std::tuple<int, Mirrors>> {
 protected:
  int ranks() const { return std::get<0>(GetParam()); }
  Mirrors mirrors() const { return std::get<1>(GetParam()); }
};

TEST_P(Mirrored, RunEveryAlgorithmWithMessagesToAll) {
  const std::vector<const Algorithm*> algorithms = algorithms_to_all();
  ASSERT_GE(algorithms.size(), 4u);
  int turn = 0;
  for (const std::uint32_t blocks : {1u, 3u}) {
    DeviceWorld world(small_geometry(ranks(), blocks), mirrors());
    for (const Algorithm* const algorithm : algorithms) {
      for (const std::size_t count : {std::size_t{1}, std::size_t{61}, std::size_t{1009}, std::size_t{20011}}) {
        const bool moves = algorithm->collective != Collective::kBarrier;
        if (kSanitized && count > 20000) continue;
        DeviceCase one{algorithm, 1, turn++ % ranks(), moves ? count : 0, count > 1000 ? std::size_t{300} : 0};
        one.in_place = moves && turn % 2 == 0;
        one.threads = 1 + static_cast<std::uint32_t>(turn) % 3;
        ASSERT_EQ(DeviceTrial(&world, one).run(), "");
      }
    }
  }
}

TEST_P(Mirrored, TellWhereWhatIsLentLies) {
  DeviceWorld world(small_geometry(ranks(), 2), mirrors());
  const Algorithm& broadcast = *find_algorithm(Collective::kBroadcast, "all_pairs");
  for (int root = 0; root < ranks(); ++root) {
    DeviceCase one{&broadcast, 1, root, 5003, 700};
    one.lends = true;
    ASSERT_EQ(DeviceTrial(&world, one).run(), "");
    EXPECT_GT(world.lent_slots(root), 0);
  }
}

TEST_P(Mirrored, NeverOverrunAReaderThatIsSlow) {
  DeviceGeometry geometry = small_geometry(ranks(), 1);
  geometry.slot_bytes = 512;
  DeviceWorld world(geometry, mirrors());
  world.set_limit(60'000'000'000);  // a reader whose messages were overwritten waits for them for ever
  const Algorithm& broadcast = *find_algorithm(Collective::kBroadcast, "all_pairs");
  for (int slow = 1; slow < ranks(); ++slow) {
    for (const std::size_t tile : {std::size_t{16}, std::size_t{128}}) {  // in cells, in slots
      DeviceCase one{&broadcast, 1, 0, 24 * tile, tile};
      one.slow = slow;
      ASSERT_EQ(DeviceTrial(&world, one).run(), "") << slow;
    }
  }
}

TEST_P(Mirrored, GoOnWhereFlagsWrap) {
  DeviceWorld world(small_geometry(ranks(), 2), mirrors());
  world.start_at((std::uint64_t{1} << 32) - 20);
  const Algorithm& all_gather = *find_algorithm(Collective::kAllGather, "all_pairs");
  for (int round = 0; round < 40; ++round) {
    const std::size_t count = round % 3 == 0 ? 400 : 5;
    ASSERT_EQ(DeviceTrial(&world, {&all_gather, 1, 0, count}).run(), "") << round;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Mirrored,
                         ::testing::Combine(::testing::Values(2, 3, 4, 5, 8),
                                            ::testing::Values(Mirrors::kMulticast, Mirrors::kMapped)),
                         [](const auto& info) {
                           const bool mapped = std::get<1>(info.param) == Mirrors::kMapped;
                           return std::to_string(std::get<0>(info.param)) + (mapped ? "_mapped" : "_multicast");
                         });

// What a rank reads lies in its own mirror, what it writes is reached by the address of all; the rest is the arenas'.
TEST(MirrorLinks, HaveAnAddressForEachSide) {
  const DeviceGeometry geometry = small_geometry(3, 2);
  std::vector<std::byte> arena(geometry.arena_bytes()), mirror(geometry.mirror_bytes()), all(geometry.mirror_bytes());
  DeviceLinks links;
  links.set_geometry(geometry);
  for (int rank = 0; rank < 3; ++rank) links.arenas[rank] = arena.data();
  links.mirror = mirror.data();
  links.to_mirrors = all.data();
  const auto within = [](const void* place, const std::vector<std::byte>& memory) {
    const auto* const at = static_cast<const std::byte*>(place);
    return at >= memory.data() && at < memory.data() + memory.size();
  };
  for (std::uint32_t block = 0; block < 2; ++block) {
    for (int writer = 0; writer < 3; ++writer) {
      for (const std::uint64_t position : {0u, 1u, 7u}) {
        const DeviceRoute to_all = DeviceRoute::of(writer, 2 - writer, true);
        const DeviceRoute to_one = DeviceRoute::of(writer, (writer + 1) % 3, false);
        for (const LinkSide side : {LinkSide::kReader, LinkSide::kWriter}) {
          const std::vector<std::byte>& expected = side == LinkSide::kReader ? mirror : all;
          EXPECT_TRUE(within(links.head(to_all, links.sections(block), side), expected));
          EXPECT_TRUE(within(links.mark(to_all, links.sections(block), position, side) + 1, expected));
          EXPECT_TRUE(within(links.cell(to_all, links.sections(block), position, side) + geometry.pairs_of_cell() - 1,
                             expected));
          EXPECT_TRUE(within(links.head(to_one, links.sections(block), side), arena));
          EXPECT_TRUE(within(links.mark(to_one, links.sections(block), position, side), arena));
          EXPECT_TRUE(within(links.cell(to_one, links.sections(block), position, side), arena));
        }
        EXPECT_TRUE(within(links.slot(to_all, links.sections(block), position), arena));
      }
    }
  }
}

}  // namespace
}  // namespace tutti::test

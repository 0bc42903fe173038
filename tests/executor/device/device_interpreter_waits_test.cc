// Covers executor/device/device_interpreter.h, executor/device/device_port.h.
// Waits that do not end: stops, deadlines, other calls; and positions that have come far.
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <string>
#include <thread>
#include <tuple>

#include "collectives/choice/catalogue.h"
#include "support/await.h"
#include "support/device/device_trial.h"

namespace tutti::test {
namespace {

DeviceGeometry geometry_of(int ranks) {
  DeviceGeometry geometry;
  geometry.ranks = ranks;
  geometry.blocks = 2;
  geometry.cell_bytes = 128;
  geometry.slot_bytes = 1024;
  return geometry;
}

const Algorithm& all_reduce(const char* name) { return *find_algorithm(Collective::kAllReduce, name); }

/// One rank's part of a collective, alone: an all-reduce, or a broadcast from `root`.
class LoneRank {
 public:
  LoneRank(DeviceWorld* world, int rank, std::size_t count, Fingerprint fingerprint)
      : LoneRank(world, rank, count, fingerprint, all_reduce("all_pairs"), 0) {}
  LoneRank(DeviceWorld* world, int rank, std::size_t count, Fingerprint fingerprint, const Algorithm& algorithm,
           int root)
      : world_(*world),
        rank_(rank),
        schedule_(build_schedule(algorithm, Shape{world->geometry().ranks, rank, root, 1, nullptr})),
        data_(count, 1) {
    launch_.schedule = &schedule_;
    launch_.carry(DataType::kUint32);
    launch_.input = reinterpret_cast<const std::byte*>(data_.data());
    launch_.output = reinterpret_cast<std::byte*>(data_.data());
    launch_.count = Elems{count};
    launch_.tile = Elems{256};
    launch_.fingerprint = fingerprint;
  }
  void lend(bool lends) { launch_.lends = lends; }
  void run() {
    DeviceCall call{};
    bind_device_call(launch_, world_.place(rank_), &call);
    run_on_host(call, HostRun{});
    ended_.store(true);
  }
  bool ended() const { return ended_.load(); }
  std::uint32_t value(std::size_t i = 0) const { return data_[i]; }

 private:
  DeviceWorld& world_;
  int rank_;
  Schedule schedule_;
  std::vector<std::uint32_t> data_;
  Launch launch_;
  std::atomic<bool> ended_{false};
};

std::uint64_t failure_of(DeviceWorld& world, int rank) {
  for (const std::uint64_t& failure : world.report(rank).failures)
    if (failure != 0) return failure;
  return 0;
}

class Waits : public ::testing::TestWithParam<std::tuple<std::size_t, Mirrors>> {
 protected:
  std::size_t elements() const { return std::get<0>(GetParam()); }  // in a cell, in slots
  Mirrors mirrors() const { return std::get<1>(GetParam()); }
};

// In a broadcast nobody waits for a rank that is only late, as the threads of a loaded machine are.
TEST_P(Waits, EndAtTheDeadlineAndNameTheRank) {
  DeviceWorld world(geometry_of(3), mirrors());
  world.set_limit(50'000'000);
  const Algorithm& broadcast = *find_algorithm(Collective::kBroadcast, "all_pairs");
  LoneRank first(&world, 0, elements(), 7, broadcast, 2);
  LoneRank second(&world, 1, elements(), 7, broadcast, 2);
  std::thread other([&] { second.run(); });
  first.run();
  other.join();
  for (const int rank : {0, 1}) {
    EXPECT_EQ(DeviceReport::code_of(failure_of(world, rank)), Code::kTimeout);
    EXPECT_EQ(DeviceReport::rank_of(failure_of(world, rank)), Rank{2});
  }
}

TEST_P(Waits, TellWhomTheyWaitForAndEndWhenTheHostSaysSo) {
  DeviceWorld world(geometry_of(2), mirrors());
  LoneRank lone(&world, 1, elements(), 7);
  std::thread running([&] { lone.run(); });
  const auto waits = [&] {
    for (const std::uint64_t& word : world.report(1).waiting)
      if (load_relaxed(&word) != 0) return load_relaxed(&word);
    return std::uint64_t{0};
  };
  await([&] { return waits() != 0; }, "a wait");
  EXPECT_EQ(waits(), 1u);  // rank 0, plus one
  store_relaxed(&world.report(1).stop, 1);
  running.join();
  EXPECT_EQ(DeviceReport::code_of(failure_of(world, 1)), Code::kAborted);
}

TEST_P(Waits, EndAtTheMessageOfAnotherCall) {
  DeviceWorld world(geometry_of(2), mirrors());
  LoneRank first(&world, 0, elements(), 7);
  LoneRank second(&world, 1, elements(), 8);
  std::thread other([&] { second.run(); });
  first.run();
  other.join();
  EXPECT_EQ(DeviceReport::code_of(failure_of(world, 0)), Code::kMismatch);
  EXPECT_EQ(DeviceReport::rank_of(failure_of(world, 0)), Rank{1});
  EXPECT_EQ(DeviceReport::code_of(failure_of(world, 1)), Code::kMismatch);
}

TEST_P(Waits, LongOnesAreForgottenWhenTheyEnd) {
  DeviceWorld world(geometry_of(2), mirrors());
  LoneRank first(&world, 0, elements(), 7);
  LoneRank second(&world, 1, elements(), 7);
  std::thread other([&] {
    await([&] { return load_relaxed(&world.report(0).waiting[0]) != 0; }, "a wait");
    second.run();
  });
  first.run();
  other.join();
  EXPECT_EQ(failure_of(world, 0), 0u);
  EXPECT_EQ(first.value(), 2u);
  EXPECT_EQ(world.report(0).waiting[0], 0u);
  EXPECT_GT(world.report(0).ended_waits, 0u);
}

// A pair of words is there when both are: whichever comes first, on a device two stores may be seen in any order.
TEST(Cells, AreTakenWhenBothWordsOfAPairAreThere) {
  for (const bool first_is_late : {false, true}) {
    DeviceWorld world(geometry_of(2));
    LoneRank reader(&world, 1, 3, 7);
    const DeviceLinks links = world.place(1).links;
    WordPair* const cell = links.cell(DeviceRoute::of(0, 1, true), links.sections(0), 0);
    const std::uint64_t words[3] = {7, std::uint64_t{20} << 32 | 10, 30};  // the fingerprint, three numbers
    const auto write = [&](bool late) {
      for (std::size_t i = 0; i < 3; ++i) {
        const WordPair pair = FlaggedWord::split(words[i], FlaggedWord::flag_of(0));
        std::uint64_t* const place = late == first_is_late ? &cell[i].first : &cell[i].second;
        store_relaxed(place, late == first_is_late ? pair.first : pair.second);
      }
    };
    write(false);
    std::thread running([&] { reader.run(); });
    const auto waits = [&] {
      return load_relaxed(&world.report(1).waiting[0]) != 0 || failure_of(world, 1) != 0 || reader.ended();
    };
    await(waits, "a wait, or its end");
    EXPECT_FALSE(reader.ended());
    write(true);
    running.join();
    EXPECT_EQ(failure_of(world, 1), 0u);
    EXPECT_EQ(reader.value(0), 11u);
    EXPECT_EQ(reader.value(1), 21u);
    EXPECT_EQ(reader.value(2), 31u);
  }
}

/// A broadcast whose large messages lie in its root's buffer: more than the slots of a link hold would have to wait
/// anyway.
constexpr std::size_t kLent = 400;  // elements: two tiles

// The buffer is the caller's again when the kernel has ended.
TEST(Lent, MemoryIsWaitedForAtTheEnd) {
  const Algorithm& broadcast = *find_algorithm(Collective::kBroadcast, "all_pairs");
  for (const bool lends : {false, true}) {
    DeviceWorld world(geometry_of(2));
    world.set_limit(50'000'000);
    LoneRank root(&world, 0, kLent, 7, broadcast, 0);
    root.lend(lends);
    root.run();
    EXPECT_EQ(failure_of(world, 0), lends ? DeviceReport::pack(Code::kTimeout, 1) : 0u);
  }
}

// What lay in it is not taken for the message once its owner's kernel was stopped: the owner may have overwritten it.
TEST(Lent, MemoryOfAStoppedRankIsNotTaken) {
  const Algorithm& broadcast = *find_algorithm(Collective::kBroadcast, "all_pairs");
  DeviceWorld world(geometry_of(2));
  LoneRank root(&world, 0, kLent, 7, broadcast, 0);
  root.lend(true);
  LoneRank reader(&world, 1, kLent, 7, broadcast, 0);
  std::thread running([&] { root.run(); });
  await([&] { return load_relaxed(&world.report(0).waiting[0]) != 0; }, "a wait");
  store_relaxed(&world.report(0).stop, 1);
  running.join();
  EXPECT_EQ(DeviceReport::code_of(failure_of(world, 0)), Code::kAborted);
  reader.run();
  EXPECT_EQ(DeviceReport::code_of(failure_of(world, 1)), Code::kAborted);
  EXPECT_EQ(DeviceReport::rank_of(failure_of(world, 1)), Rank{0});
}

// Its positions are those before the stopped one: what it wrote would be overwritten while peers read it.
TEST_P(Waits, AreNotBegunByTheKernelBehindAStoppedOne) {
  DeviceWorld world(geometry_of(2), mirrors());
  const Algorithm& broadcast = *find_algorithm(Collective::kBroadcast, "all_pairs");
  store_relaxed(world.place(0).links.stop(), 1);
  LoneRank root(&world, 0, elements(), 7, broadcast, 0);
  root.run();
  world.set_limit(50'000'000);
  LoneRank reader(&world, 1, elements(), 7, broadcast, 0);
  reader.run();
  EXPECT_EQ(failure_of(world, 1), DeviceReport::pack(Code::kTimeout, 0)) << "a message of the stopped rank came";
}

INSTANTIATE_TEST_SUITE_P(Sizes, Waits,
                         ::testing::Combine(::testing::Values(3, 1000),
                                            ::testing::Values(Mirrors::kNone, Mirrors::kMulticast)),
                         [](const auto& info) {
                           const bool multicast = std::get<1>(info.param) == Mirrors::kMulticast;
                           return std::to_string(std::get<0>(info.param)) + (multicast ? "_multicast" : "");
                         });

// Flags have 32 bits, positions 64. Rings are passed several times on both sides of the wrap.
TEST(Positions, GoOnWhereFlagsWrap) {
  DeviceWorld world(geometry_of(3));
  world.start_at((std::uint64_t{1} << 32) - 40);
  for (const char* name : {"all_pairs", "ring"}) {
    for (int round = 0; round < 60; ++round) {
      const std::size_t count = round % 3 == 0 ? 24 : 2;
      ASSERT_EQ(DeviceTrial(&world, {&all_reduce(name), 1, 0, count, 0, false, 2}).run(), "") << round;
    }
  }
  for (int round = 0; round < 20; ++round)
    ASSERT_EQ(DeviceTrial(&world, {&all_reduce("ring"), 1, 0, 3000, 0, false, 2}).run(), "") << round;
}

// A cell that short messages have passed by for long holds no flag that is older than its marks let it be.
TEST(Positions, EveryWordOfACellIsMarkedAnewInTime) {
  const DeviceGeometry geometry = geometry_of(2);
  DeviceWorld world(geometry);
  const std::uint64_t begin = std::uint64_t{3} * geometry.cells;  // the marks begin anywhere
  world.start_at(begin);
  const std::size_t rounds = geometry.cells * std::bit_ceil(geometry.pairs_of_cell());
  for (std::size_t round = 0; round < rounds; ++round)
    ASSERT_EQ(DeviceTrial(&world, {&all_reduce("all_pairs"), 1, 0, 1, 0, false, 1}).run(), "");
  const DeviceLinks links = world.place(0).links;
  const std::uint64_t position = links.table(0)->sent[0].cells;
  EXPECT_EQ(position, begin + rounds);
  for (std::uint64_t back = 1; back <= geometry.cells; ++back) {
    const WordPair* const cell = links.cell(DeviceRoute{0, 0}, links.sections(0), position - back);
    for (std::size_t i = 0; i < geometry.pairs_of_cell(); ++i) EXPECT_NE(cell[i].first >> 32, 0u) << i;
  }
}

}  // namespace
}  // namespace tutti::test

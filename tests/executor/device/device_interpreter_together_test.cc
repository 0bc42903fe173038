// Covers executor/device/step_planner.h, executor/device/device_interpreter.h, collectives/steps_together.cc.
// Steps that run together: which do, that they need the barriers of one step, and how their waits end.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "collectives/choice/catalogue.h"
#include "collectives/steps_together.h"
#include "support/await.h"
#include "support/device/device_trial.h"

namespace tutti::test {
namespace {

constexpr std::uint32_t kCell = 128;

DeviceGeometry one_block(int ranks) {
  DeviceGeometry geometry;
  geometry.ranks = ranks;
  geometry.blocks = 1;
  geometry.cell_bytes = kCell;
  geometry.slot_bytes = 1024;
  return geometry;
}

std::atomic<std::uint64_t> barriers{0};

void count_barriers(const DeviceCall& call, const HostRun& how) {
  HostRun counted = how;
  if (call.links.rank == 0) counted.barriers = &barriers;
  run_on_host(call, counted);
}

void run_trial(const Algorithm& algorithm, int ranks, std::size_t count) {
  DeviceWorld world(one_block(ranks));
  DeviceCase one{&algorithm, 1, 0, count, 0, false, 2};
  one.run = count_barriers;
  barriers = 0;
  ASSERT_EQ(DeviceTrial(&world, one).run(), "");
}

/// A kernel opens with two barriers, and one comes before its end. Each pass has two, or one if it has no message. If
/// the messages are small, one more follows the pass that sends, until the next one has been planned.
constexpr std::uint64_t barriers_of(bool small, std::uint64_t passes, std::uint64_t copies = 0) {
  return 3 + 2 * passes + copies + (small ? 1 : 0);
}

// Counts that divide among the ranks, so that there is one tile; in cells, and in slots.
TEST(Together, OnePassSendsToAllAndOneStoresWhatAllSent) {
  for (const int ranks : {2, 3, 5, 8}) {
    for (const std::size_t each : {std::size_t{16}, std::size_t{192}}) {
      const bool small = each * sizeof(std::uint32_t) <= kCell;
      run_trial(*find_algorithm(Collective::kAllReduce, "all_pairs_two_shot"), ranks,
                each * static_cast<unsigned>(ranks));
      EXPECT_EQ(barriers.load(), barriers_of(small, 3)) << ranks << " ranks: sends, the reduction, what is stored";
      run_trial(*find_algorithm(Collective::kAllToAll, "all_pairs"), ranks, each);
      EXPECT_EQ(barriers.load(), barriers_of(small, 2, 1)) << ranks << " ranks: sends, the own block, what is stored";
    }
  }
}

// The last chunk is smaller than the others, in a cell where those are in slots, or empty.
TEST(Together, MessagesMayDifferInSize) {
  for (const int ranks : {3, 4, 7}) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{17}, std::size_t{145}, std::size_t{1000}}) {
      run_trial(*find_algorithm(Collective::kAllReduce, "all_pairs_two_shot"), ranks, count);
      if (count < 200) {
        const std::size_t largest = std::min(round_up(div_up(count, static_cast<std::size_t>(ranks)), 16), count);
        const bool small = largest * sizeof(std::uint32_t) <= kCell;
        EXPECT_EQ(barriers.load(), barriers_of(small, 3)) << ranks << " ranks, " << count << " elements";
      }
    }
  }
}

// Programs that kernels read from a table, in one tile and in several, with slots that wrap.
TEST(Together, ProgramsTooLongForTheParametersRunAlike) {
  for (const int ranks : {12, 16}) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{145}, std::size_t{3001}, std::size_t{20011}}) {
      run_trial(*find_algorithm(Collective::kAllReduce, "all_pairs_two_shot"), ranks, count);
      run_trial(*find_algorithm(Collective::kAllToAll, "all_pairs"), ranks, count / 16 + 1);
    }
  }
}

/// The steps of a run may run in any order.
void check_run(std::span<const Step> run, const std::string& what) {
  std::set<std::int32_t> peers;
  std::set<std::pair<BufferId, std::uint32_t>> places;
  for (const Step& step : run) {
    const bool sends = step.verbs == kSend && step.send_to == PeerSet::kOne;
    const bool stores = step.verbs == (kRecv | kStore) && step.recv_from == PeerSet::kOne;
    EXPECT_TRUE(sends || stores) << what;
    EXPECT_EQ(step.verbs, run[0].verbs) << what;
    EXPECT_EQ(step.flags, run[0].flags) << what;
    EXPECT_EQ(step.span.count, 1u) << what;
    EXPECT_TRUE(peers.insert(sends ? step.send_peer : step.recv_peer).second) << what;
    EXPECT_TRUE(sends || places.insert({step.dst_buffer, step.dst_chunk}).second) << what;
  }
}

TEST(Together, RunsOnlyStepsThatNeedNoOrder) {
  std::size_t runs = 0;
  for (const Algorithm& algorithm : catalogue()) {
    for (int ranks = 1; ranks <= kMaxDeviceRanks; ++ranks) {
      Schedule schedule = build_schedule(algorithm, Shape{ranks, ranks - 1, 0, 1, nullptr});
      mark_what_runs_together(&schedule);
      const std::span<const Step> lane = schedule.lane(0);
      for (std::size_t i = 0; i < lane.size(); i += 1 + std::size_t{lane[i].together}) {
        if (lane[i].together == 0) continue;
        ++runs;
        ASSERT_LT(i + lane[i].together, lane.size());
        ASSERT_LT(lane[i].together, kMaxDeviceRanks);
        check_run(lane.subspan(i, 1 + std::size_t{lane[i].together}), algorithm.name);
      }
    }
  }
  EXPECT_GT(runs, 100u);
}

/// One rank's part of a gather to rank 0, whose receives run together.
class Gatherer {
 public:
  Gatherer(DeviceWorld* world, int rank, std::size_t count, Fingerprint fingerprint)
      : world_(*world),
        rank_(rank),
        schedule_(build_schedule(*find_algorithm(Collective::kGather, "all_pairs"),
                                 Shape{world->geometry().ranks, rank, 0, 1, nullptr})),
        input_(count, static_cast<std::uint32_t>(rank)),
        output_(count * static_cast<std::size_t>(world->geometry().ranks)) {
    mark_what_runs_together(&schedule_);
    launch_.schedule = &schedule_;
    launch_.carry(DataType::kUint32);
    launch_.input = reinterpret_cast<const std::byte*>(input_.data());
    launch_.output = reinterpret_cast<std::byte*>(output_.data());
    launch_.count = launch_.tile = Elems{count};
    launch_.fingerprint = fingerprint;
  }
  void run() {
    DeviceCall call{};
    bind_device_call(launch_, world_.place(rank_), &call);
    run_on_host(call, HostRun{});
  }
  Code code() const { return DeviceReport::code_of(world_.report(rank_).failures[0]); }
  Rank culprit() const { return DeviceReport::rank_of(world_.report(rank_).failures[0]); }
  std::uint64_t waits() const { return load_relaxed(&world_.report(rank_).waiting[0]); }

 private:
  DeviceWorld& world_;
  int rank_;
  Schedule schedule_;
  std::vector<std::uint32_t> input_;
  std::vector<std::uint32_t> output_;
  Launch launch_;
};

class TogetherWaits : public ::testing::TestWithParam<std::size_t> {};

TEST_P(TogetherWaits, EndAtTheDeadlineAndNameTheRankThatIsMissing) {
  DeviceWorld world(one_block(4));
  world.set_limit(100'000'000);
  Gatherer root(&world, 0, GetParam(), 7), one(&world, 1, GetParam(), 7), two(&world, 3, GetParam(), 7);
  one.run();
  two.run();
  root.run();
  EXPECT_EQ(root.code(), Code::kTimeout);
  EXPECT_EQ(root.culprit(), Rank{2});
}

TEST_P(TogetherWaits, EndAtTheMessageOfAnotherCall) {
  DeviceWorld world(one_block(4));
  Gatherer root(&world, 0, GetParam(), 7);
  for (const int rank : {1, 2, 3}) Gatherer(&world, rank, GetParam(), rank == 2 ? 8 : 7).run();
  root.run();
  EXPECT_EQ(root.code(), Code::kMismatch);
  EXPECT_EQ(root.culprit(), Rank{2});
}

TEST_P(TogetherWaits, EndWhenTheHostSaysSo) {
  DeviceWorld world(one_block(4));
  Gatherer root(&world, 0, GetParam(), 7);
  for (const int rank : {1, 2}) Gatherer(&world, rank, GetParam(), 7).run();
  std::thread running([&] { root.run(); });
  await([&] { return root.waits() != 0; }, "a wait");
  EXPECT_EQ(root.waits(), 4u);  // rank 3, plus one
  store_relaxed(&world.report(0).stop, 1);
  running.join();
  EXPECT_EQ(root.code(), Code::kAborted);
}

INSTANTIATE_TEST_SUITE_P(InCellsAndSlots, TogetherWaits, ::testing::Values(std::size_t{5}, std::size_t{200}));

}  // namespace
}  // namespace tutti::test

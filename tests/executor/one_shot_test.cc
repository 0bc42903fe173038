// Covers executor/cpu_executor_one_shot.cc, executor/cpu_executor.cc.
// The fast path and the interpreter, which takes over from it: some ranks take it, the others interpret the schedule
// that it implements, and all get the bits of an oracle.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <thread>
#include <tuple>
#include <vector>

#include "collectives/choice/catalogue.h"
#include "executor/cpu_executor.h"
#include "kernels/oracle.h"
#include "transport/inproc.h"
#include "transport/shm/shm.h"

namespace tutti::test {
namespace {

constexpr std::size_t kLargest = 8192;

/// A communicator that never loses patience.
class Patience final : public WaitMonitor {
 public:
  Status check(Rank, std::uint64_t) override { return {}; }
};

std::vector<std::unique_ptr<Executor>> make_executors(bool shm, int ranks) {
  std::vector<std::unique_ptr<Executor>> executors;
  const LadderPolicy ladder = LadderPolicy::choose(ranks > 2 ? 2 : 1, -1);
  ShmGeometry geometry;
  geometry.ranks = ranks;
  geometry.slot_bytes = Bytes{kLargest};
  std::vector<std::shared_ptr<Segment>> segments(static_cast<std::size_t>(ranks));
  for (auto& segment : segments) EXPECT_TRUE(Segment::create(geometry.segment_bytes(), &segment).ok());
  const auto fabric = std::make_shared<InprocFabric>(ranks, 1, Bytes{kLargest});
  for (Rank rank{0}; rank.value < ranks; ++rank) {
    if (!shm) {
      executors.push_back(std::make_unique<CpuExecutor<InprocEndpoint>>(std::make_unique<InprocEndpoint>(fabric, rank),
                                                                        ladder, PointToPointPolicy{Lane{0}}));
      continue;
    }
    std::unique_ptr<ShmEndpoint> endpoint;
    EXPECT_TRUE(ShmEndpoint::open(geometry, rank, segments, &endpoint).ok());
    executors.push_back(
        std::make_unique<CpuExecutor<ShmEndpoint>>(std::move(endpoint), ladder, PointToPointPolicy{Lane{0}}));
  }
  return executors;
}

constexpr int kRounds = 60;
constexpr std::size_t kMost = kLargest / sizeof(std::uint16_t);

std::size_t count_of(int round) {
  constexpr std::size_t kCounts[] = {1, 3, 24, 25, 512, 2047, 2048, 2049, kMost};
  return kCounts[round % 9];
}
/// Averages in every third round, else sums.
std::uint32_t divisor_of(int round, int ranks) { return round % 3 == 0 ? static_cast<std::uint32_t>(ranks) : 1; }
/// bfloat16 bits of values around 1 that round differently in another order.
std::uint16_t input_of(int rank, int round, std::size_t i) {
  return static_cast<std::uint16_t>(0x3f80 + (i * 7 + static_cast<std::size_t>(rank * 13 + round)) % 97);
}

/// What every rank gets in all rounds, one after the other.
std::vector<std::uint16_t> expected_results(int ranks) {
  std::vector<std::uint16_t> all;
  std::vector<oracle::Bits> values(static_cast<std::size_t>(ranks));
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < count_of(round); ++i) {
      for (int rank = 0; rank < ranks; ++rank) values[static_cast<std::size_t>(rank)] = input_of(rank, round, i);
      const std::uint32_t divisor = divisor_of(round, ranks);
      const RedOp op = divisor == 1 ? RedOp::kSum : RedOp::kAvg;
      all.push_back(static_cast<std::uint16_t>(oracle::reduce(DataType::kBfloat16, op, values, divisor)));
    }
  }
  return all;
}

/// A rank's all-reduces and, between them, barriers: in two of three rounds by the fast path, in place in every
/// second one.
class DirectRank {
 public:
  DirectRank(Executor& executor, int ranks, int rank)
      : executor_(executor),
        ranks_(ranks),
        rank_(rank),
        schedule_(schedule_of(Collective::kAllReduce)),
        tokens_(schedule_of(Collective::kBarrier)) {}

  void run() {
    for (int round = 0; round < kRounds; ++round) {
      ASSERT_NO_FATAL_FAILURE(reduce(round));
      Launch token;
      token.schedule = &tokens_;
      token.tile = Elems{1};
      token.fingerprint = mix64(++sequence_);
      token.one_shot = ranks_ > 1 && round % 2 == 0;
      ASSERT_TRUE(executor_.run(token, patience_).ok());
    }
  }
  const std::vector<std::uint16_t>& results() const { return results_; }

 private:
  Schedule schedule_of(Collective collective) const {
    return build_schedule(*find_algorithm(collective, "all_pairs"), Shape{ranks_, rank_, 0, 1});
  }
  void reduce(int round) {
    Launch launch;
    launch.schedule = &schedule_;
    launch.count = Elems{count_of(round)};
    launch.tile = Elems{kMost};
    launch.carry(DataType::kBfloat16);
    launch.divisor = divisor_of(round, ranks_);
    launch.op = launch.divisor == 1 ? RedOp::kSum : RedOp::kAvg;
    launch.fingerprint = mix64(++sequence_);
    for (std::size_t i = 0; i < kMost; ++i) input_[i] = input_of(rank_, round, i);
    const bool in_place = (round + rank_) % 2 == 0;
    std::vector<std::uint16_t>& target = in_place ? input_ : output_;
    launch.input = reinterpret_cast<const std::byte*>(input_.data());
    launch.output = reinterpret_cast<std::byte*>(target.data());
    launch.one_shot = ranks_ > 1 && (round + rank_) % 3 != 0;
    ASSERT_TRUE(executor_.run(launch, patience_).ok());
    results_.insert(results_.end(), target.begin(), target.begin() + static_cast<std::ptrdiff_t>(count_of(round)));
  }

  Executor& executor_;
  const int ranks_;
  const int rank_;
  const Schedule schedule_;
  const Schedule tokens_;
  Patience patience_;
  std::uint64_t sequence_ = 0;
  std::vector<std::uint16_t> input_ = std::vector<std::uint16_t>(kMost);
  std::vector<std::uint16_t> output_ = std::vector<std::uint16_t>(kMost);
  std::vector<std::uint16_t> results_;
};

class DirectPath : public ::testing::TestWithParam<std::tuple<bool, int>> {};

TEST_P(DirectPath, GivesTheBitsOfTheInterpreterAndMixesWithIt) {
  const bool shm = std::get<0>(GetParam());
  const int ranks = std::get<1>(GetParam());
  const auto executors = make_executors(shm, ranks);
  std::vector<std::unique_ptr<DirectRank>> all;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    Executor& executor = *executors[static_cast<std::size_t>(rank)];
    DirectRank& one = *all.emplace_back(std::make_unique<DirectRank>(executor, ranks, rank));
    threads.emplace_back([&one] { one.run(); });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<std::uint16_t> expected = expected_results(ranks);
  for (const auto& one : all) EXPECT_TRUE(one->results() == expected) << "other bits";
}
INSTANTIATE_TEST_SUITE_P(Transports, DirectPath, ::testing::Combine(::testing::Bool(), ::testing::Values(2, 3, 5)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) ? "shm_" : "inproc_") +
                                  std::to_string(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace tutti::test

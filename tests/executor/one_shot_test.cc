// The direct path against the schedule that it implements: some ranks take it, the others interpret, and all get the
// same bits.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <thread>
#include <tuple>
#include <vector>

#include "collectives/catalogue.h"
#include "executor/cpu_executor.h"
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
  const LadderPolicy ladder = LadderPolicy::choose(ranks, 2, -1);
  ShmGeometry geometry;
  geometry.ranks = ranks;
  geometry.slot_bytes = Bytes{kLargest};
  std::vector<std::shared_ptr<Segment>> segments(static_cast<std::size_t>(ranks));
  for (auto& segment : segments) EXPECT_TRUE(Segment::create(geometry.segment_bytes(), &segment).ok());
  const auto fabric = std::make_shared<InprocFabric>(ranks, 1, Bytes{kLargest});
  for (Rank rank{0}; rank.value < ranks; ++rank) {
    if (!shm) {
      executors.push_back(std::make_unique<CpuExecutor<InprocEndpoint>>(std::make_unique<InprocEndpoint>(fabric, rank),
                                                                        ladder, PeerPolicy{Lane{0}}));
      continue;
    }
    std::unique_ptr<ShmEndpoint> endpoint;
    EXPECT_TRUE(ShmEndpoint::open(geometry, rank, segments, &endpoint).ok());
    executors.push_back(std::make_unique<CpuExecutor<ShmEndpoint>>(std::move(endpoint), ladder, PeerPolicy{Lane{0}}));
  }
  return executors;
}

class DirectPath : public ::testing::TestWithParam<std::tuple<bool, int>> {};

TEST_P(DirectPath, GivesTheBitsOfTheInterpreterAndMixesWithIt) {
  const bool shm = std::get<0>(GetParam());
  const int ranks = std::get<1>(GetParam());  // not a structured binding: clang 14 cannot capture one
  const Algorithm* const algorithm = find_algorithm(Collective::kAllReduce, "all_pairs");
  const Algorithm* const barrier = find_algorithm(Collective::kBarrier, "all_pairs");
  ASSERT_NE(algorithm, nullptr);
  ASSERT_NE(barrier, nullptr);
  const auto executors = make_executors(shm, ranks);
  constexpr std::size_t kCount = kLargest / 2;
  std::vector<std::vector<std::uint16_t>> results(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const Schedule schedule = build_schedule(*algorithm, Shape{ranks, rank, 0, 1});
      const Schedule tokens = build_schedule(*barrier, Shape{ranks, rank, 0, 1});
      std::vector<std::uint16_t> input(kCount), output(kCount);
      std::vector<std::uint16_t>& all = results[static_cast<std::size_t>(rank)];
      Patience patience;
      Executor& executor = *executors[static_cast<std::size_t>(rank)];
      std::uint64_t sequence = 0;
      const std::size_t counts[] = {1, 3, 24, 25, 512, 2047, 2048, 2049, kCount};
      for (int round = 0; round < 60; ++round) {
        Launch launch;
        launch.schedule = &schedule;
        launch.count = Elems{counts[round % 9]};
        launch.tile = Elems{kCount};
        launch.carry(DataType::kBfloat16);
        launch.op = RedOp::kSum;
        launch.divisor = round % 3 == 0 ? static_cast<std::uint32_t>(ranks) : 1;
        launch.fingerprint = mix64(++sequence);
        // bfloat16 bits of values around 1 that round differently in another order.
        for (std::size_t i = 0; i < kCount; ++i)
          input[i] = static_cast<std::uint16_t>(0x3f80 + (i * 7 + static_cast<std::size_t>(rank * 13 + round)) % 97);
        const bool in_place = (round + rank) % 2 == 0;
        std::vector<std::uint16_t>& target = in_place ? input : output;
        launch.input = reinterpret_cast<const std::byte*>(input.data());
        launch.output = reinterpret_cast<std::byte*>(target.data());
        launch.one_shot = ranks > 1 && (round + rank) % 3 != 0;
        ASSERT_TRUE(executor.run(launch, patience).ok());
        all.insert(all.end(), target.begin(), target.begin() + static_cast<std::ptrdiff_t>(launch.count.value));
        Launch token;
        token.schedule = &tokens;
        token.tile = Elems{1};
        token.fingerprint = mix64(++sequence);
        token.one_shot = ranks > 1 && round % 2 == 0;
        ASSERT_TRUE(executor.run(token, patience).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
}
INSTANTIATE_TEST_SUITE_P(Transports, DirectPath, ::testing::Combine(::testing::Bool(), ::testing::Values(2, 3, 5)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) ? "shm_" : "inproc_") +
                                  std::to_string(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace tutti::test

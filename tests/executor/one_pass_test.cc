// Covers executor/cpu_executor_one_pass.cc, executor/cpu_executor.cc, executor/step_work.cc.
// The fast path and the interpreter, which takes over from it: some ranks take it, the others interpret the same
// schedule, and all get the same results.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "collectives/choice/catalogue.h"
#include "collectives/choice/plan_cache.h"
#include "core/call_board.h"
#include "core/clock.h"
#include "executor/cpu_executor.h"
#include "kernels/oracle.h"
#include "support/patience.h"
#include "transport/inproc.h"
#include "transport/shm/shm.h"
#include "transport/tcp_fabric.h"

namespace tutti::test {
namespace {

constexpr std::size_t kLargest = 8192;  // of a message in memory
constexpr std::size_t kLargestOverTcp = 512 * 1024;

/// A communicator that loses patience only if a rank has failed.
class Patience final : public WaitMonitor {
 public:
  Status check(Rank awaited, std::uint64_t) override {
    return deadline_.passed() ? fail(Code::kTimeout, "rank {} did not come", awaited.value) : Status{};
  }

 private:
  const Deadline deadline_ = Deadline::in(kFarSeconds);
};

enum class Way : std::uint8_t { kInproc, kShm, kTcp };
const char* name_of(Way way) { return way == Way::kInproc ? "inproc" : way == Way::kShm ? "shm" : "tcp"; }

template <Endpoint E>
std::unique_ptr<Executor> executor_of(std::unique_ptr<E> endpoint) {
  const LadderPolicy ladder = LadderPolicy::choose(endpoint->ranks() > 2 ? 2 : 1, -1, NetworkEndpoint<E>);
  return std::make_unique<CpuExecutor<E>>(std::move(endpoint), ladder, PointToPointPolicy{Lane{0}});
}

/// The executors of all ranks of a communicator, by rank.
class Executors {
 public:
  Executors(Way way, int ranks) {
    if (way == Way::kTcp) tcp_ = std::make_unique<TcpFabric>(ranks, short_tcp_pair);
    const auto inproc = std::make_shared<InprocFabric>(ranks, 1, Bytes{kLargest});
    ShmGeometry geometry;
    geometry.ranks = ranks;
    geometry.slot_bytes = Bytes{kLargest};
    std::vector<std::shared_ptr<Segment>> segments(static_cast<std::size_t>(ranks));
    for (auto& segment : segments) EXPECT_TRUE(Segment::create(geometry.segment_bytes(), &segment).ok());
    for (Rank rank{0}; rank.value < ranks; ++rank) {
      if (way == Way::kInproc) all_.push_back(executor_of(std::make_unique<InprocEndpoint>(inproc, rank)));
      if (way == Way::kTcp)
        all_.push_back(executor_of(testing_traffic::open_tcp(*tcp_, {ranks, 1, Bytes{kLargestOverTcp}}, rank)));
      if (way != Way::kShm) continue;
      std::unique_ptr<ShmEndpoint> endpoint;
      EXPECT_TRUE(ShmEndpoint::open(geometry, rank, segments, &endpoint).ok());
      all_.push_back(executor_of(std::move(endpoint)));
    }
  }
  Executor& operator[](int rank) const { return *all_[static_cast<std::size_t>(rank)]; }

 private:
  using TcpFabric = testing_traffic::TcpFabric;
  /// A connection that does not take the largest messages as a whole, so that a call has to wait until the rest is
  /// written.
  static void short_tcp_pair(Descriptor* first, Descriptor* second) {
    testing_traffic::tcp_pair(first, second);
    const int bytes = 64 * 1024;
    for (const Descriptor* end : {first, second}) {
      ::setsockopt(end->get(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
      ::setsockopt(end->get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    }
  }

  std::unique_ptr<TcpFabric> tcp_;
  std::vector<std::unique_ptr<Executor>> all_;
};

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

/// Returns the results of all rounds, one round after the other. They are the same on every rank.
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
class RoundingRank {
 public:
  RoundingRank(Executor& executor, int ranks, int rank)
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
      token.one_pass = round % 2 == 0;
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
    launch.one_pass = (round + rank_) % 3 != 0;
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

class OnePass : public ::testing::TestWithParam<std::tuple<Way, int>> {};

TEST_P(OnePass, RoundsAsTheInterpreterDoes) {
  const auto [way, ranks] = GetParam();
  const Executors executors(way, ranks);
  std::vector<std::unique_ptr<RoundingRank>> all;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    RoundingRank& one = *all.emplace_back(std::make_unique<RoundingRank>(executors[rank], ranks, rank));
    threads.emplace_back([&one] { one.run(); });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<std::uint16_t> expected = expected_results(ranks);
  for (const auto& one : all) EXPECT_TRUE(one->results() == expected) << "other bits";
}
/// Returns element i of the block that rank `rank` has for rank `block`.
std::int32_t number_of(int rank, std::size_t block, std::size_t i) {
  return rank * 10'000 + static_cast<std::int32_t>(block * 1'000 + i % 997);
}

std::int32_t sum_of(int ranks, std::size_t block, std::size_t i) {
  std::int32_t sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += number_of(rank, block, i);
  return sum;
}

/// Element i of block b of the result of rank `rank`.
std::int32_t result_of(Collective collective, int ranks, int rank, int root, std::size_t b, std::size_t i) {
  const auto own = static_cast<std::size_t>(rank);
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      return sum_of(ranks, 0, i);
    case Collective::kReduceScatter:
      return sum_of(ranks, own, i);
    case Collective::kBroadcast:
      return number_of(root, 0, i);
    case Collective::kScatter:
      return number_of(root, own, i);
    case Collective::kAllToAll:
      return number_of(static_cast<int>(b), own, i);
    default:  // all-gather, gather
      return number_of(static_cast<int>(b), 0, i);
  }
}

std::size_t blocks_of(BlockCount count, int ranks) {
  if (count == BlockCount::kNone) return 0;
  return count == BlockCount::kOne ? 1 : static_cast<std::size_t>(ranks);
}

/// A rank's calls of one algorithm, some of them late, some by the interpreter, some in place.
class WholeBlockRank {
 public:
  WholeBlockRank(Executor& executor, const Algorithm& algorithm, Way way, int ranks, int rank)
      : executor_(executor), collective_(algorithm.collective), way_(way), ranks_(ranks), rank_(rank) {
    Machine machine;
    machine.ranks = ranks;
    machine.max_message = Bytes{way == Way::kTcp ? kLargestOverTcp : kLargest};
    plans_ = std::make_unique<PlanCache>(std::make_shared<const AutomaticChoice>(machine), Rank{rank}, algorithm.name,
                                         Bytes{0}, LogSource{});
  }

  Plan plan(std::size_t count, int root) {
    return plans_->find(collective_, Bytes{count * sizeof(std::int32_t)}, is_rooted(collective_) ? root : -1);
  }

  void run() {
    const std::size_t largest = (way_ == Way::kTcp ? kLargestOverTcp : kLargest) / sizeof(std::int32_t);
    const std::size_t counts[] = {1, 17, 0, 600, 12, largest};
    constexpr int kCalls = 36;
    for (int call = 0; call < kCalls; ++call) {
      const int root = call < kCalls / 2 ? 0 : call % ranks_;  // one root runs ahead of the others
      // The others lose patience, or credits, and the interpreter takes over.
      if (call % 5 == 1 && call % ranks_ == rank_) std::this_thread::sleep_for(std::chrono::microseconds{300});
      ASSERT_NO_FATAL_FAILURE(run(call, counts[call % 6], root));
    }
  }

 private:
  void run(int call, std::size_t count, int root) {
    const CollectiveTraits& traits = traits_of(collective_);
    const Plan plan = this->plan(count, root);
    Launch launch;
    launch.schedule = plan.schedule;
    launch.tile = Elems{plan.tile.value / sizeof(std::int32_t)};
    launch.fingerprint = mix64(static_cast<std::uint64_t>(call) + 1);
    launch.one_pass = plan.one_pass && (call * 2 + rank_) % 5 != 0;
    const bool has_input = tutti::has_input(collective_, rank_ == root);
    const bool has_output = tutti::has_output(collective_, rank_ == root);
    const std::size_t inputs = has_input ? blocks_of(traits.input, ranks_) : 0;
    const std::size_t outputs = has_output ? blocks_of(traits.output, ranks_) : 0;
    std::vector<std::int32_t> input(inputs * count), output(outputs * count + 1, kCanary);
    for (std::size_t k = 0; k < input.size(); ++k) input[k] = number_of(rank_, k / count, k % count);
    // In place an input of one block is the rank's block of the output, and an output of one block that of the input.
    const bool in_place = inputs != 0 && outputs != 0 && call % 2 == 0;
    const std::size_t own = inputs == outputs ? 0 : static_cast<std::size_t>(rank_) * count;
    if (in_place && inputs <= outputs)
      std::copy(input.begin(), input.end(), output.begin() + static_cast<std::ptrdiff_t>(own));
    if (collective_ != Collective::kBarrier) {
      launch.carry(DataType::kInt32);
      launch.count = Elems{count};
      const std::int32_t* const from =
          in_place && inputs <= outputs ? output.data() + (inputs < outputs ? own : 0) : input.data();
      std::int32_t* const to = in_place && inputs > outputs ? input.data() + own : output.data();
      if (inputs != 0) launch.input = reinterpret_cast<const std::byte*>(from);
      if (outputs != 0) launch.output = reinterpret_cast<std::byte*>(to);
    }
    ASSERT_TRUE(executor_.run(launch, patience_).ok());
    if (in_place && inputs > outputs)
      std::copy_n(input.begin() + static_cast<std::ptrdiff_t>(own), count, output.begin());
    for (std::size_t k = 0; k + 1 < output.size(); ++k)
      ASSERT_EQ(output[k], result_of(collective_, ranks_, rank_, root, k / count, k % count))
          << "call " << call << ", rank " << rank_ << ", element " << k;
    ASSERT_EQ(output.back(), kCanary);
  }

  static constexpr std::int32_t kCanary = -7;
  Executor& executor_;
  const Collective collective_;
  const Way way_;
  const int ranks_;
  const int rank_;
  std::unique_ptr<PlanCache> plans_;
  Patience patience_;
};

TEST_P(OnePass, MovesWholeBlocksOfEveryAlgorithm) {
  const auto [way, ranks] = GetParam();
  std::set<Collective> taken;
  for (const Algorithm& algorithm : catalogue()) {
    if (algorithm.hierarchical) continue;
    SCOPED_TRACE(std::string(name_of(algorithm.collective)) + " by " + algorithm.name);
    const Executors executors(way, ranks);
    std::vector<std::unique_ptr<WholeBlockRank>> all;
    for (int rank = 0; rank < ranks; ++rank)
      all.push_back(std::make_unique<WholeBlockRank>(executors[rank], algorithm, way, ranks, rank));
    if (!all[0]->plan(1, 0).one_pass) continue;
    taken.insert(algorithm.collective);
    std::vector<std::thread> threads;
    for (const auto& one : all) threads.emplace_back([&one] { one->run(); });
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(taken.size(), 9u) << "collectives that have an algorithm of whole blocks";
}

/// A step that reduces what comes in with one operand of the rank's own, by the fast path or by the interpreter.
struct Reduction {
  Collective collective;
  const char* algorithm;
  bool one_pass;
};

/// A rank's sums of so many elements over tcp.
class LandingRank {
 public:
  LandingRank(Executor& executor, const Reduction& reduction, int rank)
      : executor_(executor), reduction_(reduction), rank_(rank) {}

  void sum(std::size_t count, bool in_place) {
    const Schedule schedule =
        build_schedule(*find_algorithm(reduction_.collective, reduction_.algorithm), Shape{2, rank_, 0, 1});
    std::vector<std::int32_t> input(count), output(count);
    for (std::size_t i = 0; i < count; ++i) input[i] = number_of(rank_, 0, i);
    std::vector<std::int32_t>& target = in_place ? input : output;
    Launch launch;
    launch.schedule = &schedule;
    launch.carry(DataType::kInt32);
    launch.count = launch.tile = Elems{count};
    launch.one_pass = reduction_.one_pass;
    launch.fingerprint = mix64(++sequence_);
    launch.input = reinterpret_cast<const std::byte*>(input.data());
    launch.output = reinterpret_cast<std::byte*>(target.data());
    ASSERT_TRUE(executor_.run(launch, patience_).ok());
    if (!has_output(reduction_.collective, rank_ == 0)) return;
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(target[i], sum_of(2, 0, i)) << i;
  }

 private:
  Executor& executor_;
  const Reduction reduction_;
  const int rank_;
  Patience patience_;
  std::uint64_t sequence_ = 0;
};

class OnePassLanding : public ::testing::TestWithParam<Reduction> {};

// Rank 0 has memory for what it has sent, each slot as large as the largest message, and none for what has come.
TEST_P(OnePassLanding, WhatIsReducedArrivesWhereItsSumIsStored) {
  const Executors executors(Way::kTcp, 2);
  LandingRank ranks[] = {{executors[0], GetParam(), 0}, {executors[1], GetParam(), 1}};
  const auto sum = [&](std::size_t count, bool in_place) {
    std::thread other([&] { ranks[1].sum(count, in_place); });
    ranks[0].sum(count, in_place);
    other.join();
    return executors[0].scratch_bytes();
  };
  const std::size_t sent = GetParam().collective == Collective::kAllReduce ? kLargestOverTcp : 0;
  constexpr std::size_t kCount = 8192;
  sum(1, false);  // makes the connection
  EXPECT_LT(sum(kCount, false), sent + kLargestOverTcp);
  EXPECT_GE(sum(kCount, true), sent + kLargestOverTcp) << "the rank's own operand is there";
}
INSTANTIATE_TEST_SUITE_P(, OnePassLanding,
                         ::testing::Values(Reduction{Collective::kAllReduce, "all_pairs", true},
                                           Reduction{Collective::kAllReduce, "all_pairs", false},
                                           Reduction{Collective::kReduce, "tree", true},
                                           Reduction{Collective::kReduce, "tree", false}),
                         [](const auto& info) {
                           return std::string(name_of(info.param.collective)) +
                                  (info.param.one_pass ? "_fast_path" : "_interpreter");
                         });

/// Ends the wait at the first question.
class Judge final : public WaitMonitor {
 public:
  Status check(Rank, std::uint64_t) override { return fail(Code::kMismatch, "asked"); }
};

TEST(OnePassEnds, ByAMessageOfAnotherCallOrByItsMonitor) {
  for (const std::uint64_t other : {1u, 2u, 0u}) {
    const Executors executors(Way::kShm, 2);
    const Schedule sends = build_schedule(*find_algorithm(Collective::kBroadcast, "all_pairs"), Shape{2, 1, 1, 1});
    const Schedule receives = build_schedule(*find_algorithm(Collective::kBroadcast, "all_pairs"), Shape{2, 0, 1, 1});
    std::int32_t sent = 5, received = 3;
    Launch launch;
    launch.carry(DataType::kInt32);
    launch.count = launch.tile = Elems{1};
    launch.one_pass = true;
    launch.input = reinterpret_cast<const std::byte*>(&sent);
    launch.output = reinterpret_cast<std::byte*>(&sent);
    launch.schedule = &sends;
    launch.fingerprint = mix64(other);
    Judge judge;
    ASSERT_TRUE(other == 0 || executors[1].run(launch, judge).ok());
    launch.schedule = &receives;
    launch.output = reinterpret_cast<std::byte*>(&received);
    launch.fingerprint = mix64(1);
    const Status status = executors[0].run(launch, judge);
    EXPECT_EQ(status.ok(), other == 1);
    EXPECT_EQ(received, other == 1 ? 5 : 3);
    EXPECT_EQ(executors[0].mismatched(), other == 2 ? Rank{1} : kNoRank);
    EXPECT_EQ(executors[0].awaited(), other == 0 ? Rank{1} : kNoRank);
  }
}

/// A root that has no credit left goes on where it stood, and copies its own block once.
TEST(OnePassWaits, ForCreditsInTheMiddleOfAScatter) {
  constexpr int kCalls = 30;
  const Executors executors(Way::kShm, 2);
  const auto rank = [&](Rank self, const std::function<bool()>& may_begin) {
    const Schedule schedule =
        build_schedule(*find_algorithm(Collective::kScatter, "all_pairs"), Shape{2, self.value, 0, 1});
    Patience patience;
    executors[self.value].links().board().begin_point_to_point(1);  // whom it waits for is shown while it is at work
    while (!may_begin()) std::this_thread::yield();
    for (std::int32_t call = 0; call < kCalls; ++call) {
      std::int32_t blocks[] = {call, call + 100}, mine = -1;
      Launch launch;
      launch.schedule = &schedule;
      launch.carry(DataType::kInt32);
      launch.count = launch.tile = Elems{1};
      launch.one_pass = true;
      launch.fingerprint = mix64(static_cast<std::uint64_t>(call) + 1);
      launch.input = reinterpret_cast<const std::byte*>(blocks);
      launch.output = reinterpret_cast<std::byte*>(&mine);
      ASSERT_TRUE(executors[self.value].run(launch, patience).ok());
      ASSERT_EQ(mine, blocks[self.value]);
    }
  };
  std::thread root([&] { rank(Rank{0}, [] { return true; }); });
  const CallBoard& board = *executors[1].links().board(Rank{0});
  rank(Rank{1}, [&] { return board.state().waiting_for == Rank{1}; });
  root.join();
}

std::string name_of_world(const ::testing::TestParamInfo<std::tuple<Way, int>>& info) {
  return std::string(name_of(std::get<0>(info.param))) + "_" + std::to_string(std::get<1>(info.param));
}
INSTANTIATE_TEST_SUITE_P(InMemory, OnePass,
                         ::testing::Combine(::testing::Values(Way::kInproc, Way::kShm),
                                            ::testing::Values(1, 2, 3, 4, 7)),
                         name_of_world);
INSTANTIATE_TEST_SUITE_P(Connected, OnePass, ::testing::Combine(::testing::Values(Way::kTcp), ::testing::Values(2, 3)),
                         name_of_world);

}  // namespace
}  // namespace tutti::test

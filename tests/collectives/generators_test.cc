// Covers collectives/*.h, the generators, and schedule/schedule.cc.
// Generators as what they are: constexpr functions. What is asserted here is also true at compile time.
#include <gtest/gtest.h>

#include "collectives/all_pairs.h"
#include "collectives/bruck.h"
#include "collectives/chain.h"
#include "collectives/choice/catalogue.h"
#include "collectives/dissemination.h"
#include "collectives/double_tree.h"
#include "collectives/halving_doubling.h"
#include "collectives/hierarchical/hierarchical_all_to_all.h"
#include "collectives/hierarchical/hierarchical_double_tree.h"
#include "collectives/hierarchical/hierarchical_knomial.h"
#include "collectives/hierarchical/hierarchical_leaders.h"
#include "collectives/hierarchical/hierarchical_ring.h"
#include "collectives/hierarchical/hierarchical_rounds.h"
#include "collectives/hierarchical/recursive_exchange.h"
#include "collectives/knomial.h"
#include "collectives/knomial_blocks.h"
#include "collectives/linear.h"
#include "collectives/pairwise.h"
#include "collectives/pat.h"
#include "collectives/recursive_doubling.h"
#include "collectives/recursive_halving.h"
#include "collectives/ring.h"
#include "collectives/scatter_all_gather.h"
#include "collectives/tree.h"
#include "schedule/peer_list.h"
#include "schedule/schedule.h"

namespace tutti {
namespace {

constexpr bool is_sender(const Shape& shape, const Step& step, std::int32_t rank) {
  const PeerList senders = senders_of(shape, step);
  for (std::int32_t i = 0; i < senders.count; ++i)
    if (senders[i] == rank) return true;
  return false;
}

/// Messages that arrive at `reader` from `writer` in one pass, by sends or by receives.
constexpr int messages(const Algorithm& a, Shape shape, std::int32_t writer, std::int32_t reader, bool by_sends) {
  int count = 0;
  shape.rank = by_sends ? writer : reader;
  for (std::uint32_t lane = 0; lane < static_cast<std::uint32_t>(shape.lanes); ++lane) {
    for (std::uint32_t i = 0; i < a.steps(shape); ++i) {
      const Step step = a.step(shape, lane, i);
      const bool sends = step.send_to == PeerSet::kAll || (step.has(kSend) && step.send_peer == reader);
      const bool receives = step.recv_from == PeerSet::kOne ? step.recv_peer == writer : is_sender(shape, step, writer);
      if (by_sends ? sends : receives) ++count;
    }
  }
  return count;
}

constexpr bool sends_match_receives(const Algorithm& a, std::int32_t most) {
  for (std::int32_t n = 1; n <= most; ++n) {
    for (std::int32_t writer = 0; writer < n; ++writer) {
      for (std::int32_t reader = 0; reader < n; ++reader) {
        const Shape shape{n, 0, n / 2, 1};
        if (writer != reader && messages(a, shape, writer, reader, true) != messages(a, shape, writer, reader, false)) {
          return false;
        }
      }
    }
  }
  return true;
}

static_assert(sends_match_receives(all_pairs::kAllReduce, 7));
static_assert(sends_match_receives(all_pairs::kAllReduceTwoShot, 7));
static_assert(sends_match_receives(all_pairs::kReduceScatter, 7));
static_assert(sends_match_receives(all_pairs::kAllGather, 7));
static_assert(sends_match_receives(all_pairs::kBroadcast, 7));
static_assert(sends_match_receives(all_pairs::kReduce, 7));
static_assert(sends_match_receives(all_pairs::kBarrier, 7));
static_assert(sends_match_receives(all_pairs::kGather, 7));
static_assert(sends_match_receives(all_pairs::kScatter, 7));
static_assert(sends_match_receives(all_pairs::kAllToAll, 7));
static_assert(sends_match_receives(linear::kAllReduce, 7));
static_assert(sends_match_receives(linear::kBarrier, 7));
static_assert(sends_match_receives(pairwise::kAllToAll, 7));
static_assert(sends_match_receives(ring::kAllReduce, 7));
static_assert(sends_match_receives(ring::kReduceScatter, 7));
static_assert(sends_match_receives(ring::kAllGather, 7));
static_assert(sends_match_receives(recursive_doubling::kAllReduce, 7));
static_assert(sends_match_receives(recursive_doubling::kBarrier, 7));
static_assert(sends_match_receives(dissemination::kBarrier, 7));
static_assert(sends_match_receives(chain::kBroadcast, 7));
static_assert(sends_match_receives(chain::kReduce, 7));
static_assert(sends_match_receives(tree::kBroadcast, 7));
static_assert(sends_match_receives(tree::kReduce, 7));
static_assert(sends_match_receives(knomial::kBroadcast4, 7));
static_assert(sends_match_receives(knomial::kReduce4, 7));
static_assert(sends_match_receives(double_tree::kBroadcast, 7));
static_assert(sends_match_receives(double_tree::kReduce, 7));
static_assert(sends_match_receives(double_tree::kAllReduce, 7));
static_assert(sends_match_receives(hierarchical_double_tree::kBroadcast, 7));
static_assert(sends_match_receives(hierarchical_double_tree::kReduce, 7));
static_assert(sends_match_receives(hierarchical_knomial::kBroadcast4, 7));
static_assert(sends_match_receives(hierarchical_knomial::kReduce4, 7));
static_assert(sends_match_receives(hierarchical_knomial::kBroadcast8, 11));
static_assert(sends_match_receives(hierarchical_knomial::kReduce8, 11));
static_assert(sends_match_receives(halving_doubling::kAllReduce, 7));
static_assert(sends_match_receives(recursive_exchange::kAllReduce, 11));
static_assert(sends_match_receives(bruck::kAllGather, 7));
static_assert(sends_match_receives(bruck::kAllToAll, 7));
static_assert(sends_match_receives(hierarchical_all_to_all::kAllToAll3, 5));
static_assert(sends_match_receives(hierarchical_rounds::kAllGather, 7));
static_assert(sends_match_receives(hierarchical_rounds::kReduceScatter, 7));
static_assert(sends_match_receives(recursive_halving::kReduceScatter, 7));
static_assert(sends_match_receives(pat::kReduceScatter, 7));
static_assert(sends_match_receives(pat::kAllGather, 7));
static_assert(sends_match_receives(scatter_all_gather::kBroadcast, 7));
static_assert(sends_match_receives(knomial::kGather2, 7));
static_assert(sends_match_receives(knomial::kScatter2, 7));
static_assert(sends_match_receives(pairwise::kReduceScatter, 7));
static_assert(sends_match_receives(pairwise::kAllGather, 7));

// One rank alone copies, once, and has nobody to talk to.
constexpr Shape kAlone{1, 0, 0, 1};
static_assert(ring::all_reduce_steps(kAlone) == 1 && ring::all_reduce_step(kAlone, 0, 0) == copy_step(0));
static_assert(all_pairs::barrier_steps(kAlone) == 0 && dissemination::barrier_steps(kAlone) == 0);

// A ring of four, rank 0, by hand.
constexpr Shape kFour{4, 0, 0, 1};
static_assert(ring::all_reduce_steps(kFour) == 7);
static_assert(ring::all_reduce_step(kFour, 0, 0) == StepBuilder(0, 0).take(BufferId::kInput, 0).send(1).step());
static_assert(ring::all_reduce_step(kFour, 0, 1) ==
              StepBuilder(0, 3).recv(3).reduce(BufferId::kInput, 3, true).send(1).step());
static_assert(
    ring::all_reduce_step(kFour, 0, 3) ==
    StepBuilder(0, 1).recv(3).reduce(BufferId::kInput, 1, true).complete().store(BufferId::kOutput, 1).send(1).step());
static_assert(ring::all_reduce_step(kFour, 0, 6) == StepBuilder(0, 2).recv(3).store(BufferId::kOutput, 2).step());

// Two hosts of two ranks, dealt out in turn (0 and 2, 1 and 3), as a constant: generators need nothing but pointers.
constexpr std::int32_t kHostOf[] = {0, 1, 0, 1};
constexpr std::int32_t kIndexOf[] = {0, 0, 1, 1};
constexpr std::int32_t kFirst[] = {0, 2, 4};
constexpr std::int32_t kMembers[] = {0, 2, 1, 3};
constexpr std::int32_t kSameIndex[] = {0, 1, 2, 3};
constexpr HostMap kDealt{2, 2, 2, false, {kHostOf, kIndexOf, kFirst, kMembers, kSameIndex}};
constexpr Shape kRank2{4, 2, 0, 1, &kDealt};

// Rank 2 is driver 1 of host 0: chunks 2 and 3 are its share, chunks 0 and 1 that of rank 0; rank 3 is its peer.
static_assert(hierarchical_ring::extent(kRank2).parts == 4);
static_assert(hierarchical_ring::all_reduce_steps(kRank2) == 10);
static_assert(hierarchical_ring::all_reduce_step(kRank2, 0, 0) ==
              StepBuilder(0, 0).take(BufferId::kInput, 0).send(0).step());
static_assert(hierarchical_ring::all_reduce_step(kRank2, 0, 1) ==
              StepBuilder(0, 2).recv_each(PeerSet::kHost).reduce(BufferId::kInput, 2).send(3).step());
static_assert(
    hierarchical_ring::all_reduce_step(kRank2, 0, 4) ==
    StepBuilder(0, 3).recv(3).reduce(BufferId::kOutput, 3, true).complete().store(BufferId::kOutput, 3).send(3).step());
static_assert(hierarchical_leaders::all_reduce_steps(kRank2) == 2);
static_assert(hierarchical_leaders::barrier_steps(Shape{4, 0, 0, 1, &kDealt}) == 3);

// Rounds of hosts: 11 of them have 10 places, groups of five and then of two at distance five, and a guest.
constexpr Shape kEleven{11, 0, 0, 1};
static_assert(host_rounds::places(kEleven) == 10 && host_rounds::count(kEleven) == 2);
static_assert(host_rounds::group(kEleven, 0).members == 5 && host_rounds::group(kEleven, 1).distance == 5);
static_assert(host_rounds::has_guest(kEleven, 0) && !host_rounds::has_guest(kEleven, 1));
static_assert(host_rounds::is_guest(kEleven, 10) && host_rounds::host_of_guest(kEleven, 10) == 0);
// 1000 hosts: 896 places, groups of seven, then of four three times and of two once.
constexpr Shape kThousand{1000, 0, 0, 1};
static_assert(host_rounds::places(kThousand) == 896 && host_rounds::count(kThousand) == 5);
static_assert(host_rounds::group(kThousand, 3).distance == 112 && host_rounds::group(kThousand, 3).members == 4);
static_assert(host_rounds::group(kThousand, 4).distance == 448 && host_rounds::group(kThousand, 4).members == 2);
static_assert(host_rounds::parts(kThousand, 2) == 28);
// Host 30 is the third of its first group and has then the second of its group's four parts: 2 * 4 + 0.
static_assert(host_rounds::range_after(kThousand, 2, 30, 1).begin == 8);
static_assert(host_rounds::range_after(kThousand, 2, 30, 2).begin == 8 + 30 / 7 % 4);

// Circle arithmetic.
static_assert(wrap(-1, 4) == 3 && wrap(4, 4) == 0 && wrap(-8, 4) == 0 && wrap(7, 4) == 3 && wrap(-5, 1) == 0);
static_assert(floor_log2(1) == 0 && floor_log2(7) == 2 && floor_log2(8) == 3);
static_assert(ceil_log2(1) == 0 && ceil_log2(2) == 1 && ceil_log2(5) == 3 && ceil_log2(8) == 3 && ceil_log2(9) == 4);
static_assert(arc_holds_zero(0, 1, 4) && arc_holds_zero(3, 2, 4) && !arc_holds_zero(3, 1, 4) &&
              !arc_holds_zero(1, 3, 4));

TEST(Generator, TablesAreTheGeneratorWrittenOut) {
  for (const Algorithm& algorithm : catalogue()) {
    for (const std::int32_t n : {1, 2, 5, 8}) {
      for (std::int32_t rank = 0; rank < n; ++rank) {
        const Shape shape{n, rank, n - 1, std::min(3, algorithm.max_lanes)};
        const Schedule table = build_schedule(algorithm, shape);
        ASSERT_EQ(table.algorithm, &algorithm);
        ASSERT_EQ(table.steps_per_lane, algorithm.steps(shape));
        ASSERT_EQ(table.steps.size(), static_cast<std::size_t>(shape.lanes) * table.steps_per_lane);
        for (std::uint32_t lane = 0; lane < static_cast<std::uint32_t>(shape.lanes); ++lane) {
          for (std::uint32_t i = 0; i < table.steps_per_lane; ++i) {
            ASSERT_EQ(table.lane(lane)[i], algorithm.step(shape, lane, i));
            ASSERT_EQ(table.lane(lane)[i].lane, lane);
          }
        }
      }
    }
  }
}

TEST(Generator, EveryAlgorithmAloneCopiesOnce) {
  for (const Algorithm& algorithm : catalogue()) {
    const Schedule table = build_schedule(algorithm, kAlone);
    if (algorithm.collective == Collective::kBarrier) {
      EXPECT_TRUE(table.steps.empty()) << algorithm.name;
    } else {
      EXPECT_EQ(table.steps, std::vector<Step>{copy_step(0)}) << algorithm.name;
    }
  }
}

/// The choice asks rank 0 with root 0 how large tiles may be.
TEST(Generator, ExtentsAgreeOnAllRanksAndRoots) {
  for (const Algorithm& algorithm : catalogue()) {
    for (const std::int32_t n : {1, 2, 5, 8, 13, 100}) {
      const Extent first = algorithm.extent(Shape{n, 0, 0, 1});
      for (std::int32_t root = 0; root < (is_rooted(algorithm.collective) ? n : 1); ++root) {
        for (std::int32_t rank = 0; rank < n; ++rank) {
          const Extent extent = algorithm.extent(Shape{n, rank, root, 1});
          ASSERT_EQ(extent.parts, first.parts) << algorithm.name;
          ASSERT_EQ(extent.message_chunks, first.message_chunks) << algorithm.name << " " << n << " " << root;
        }
      }
    }
  }
}

/// What a rank sends at most, in messages, for the costs that docs/design/schedule.md states.
std::uint32_t most_messages_sent(const Algorithm& algorithm, std::int32_t n) {
  std::uint32_t most = 0;
  for (std::int32_t rank = 0; rank < n; ++rank) {
    std::uint32_t sent = 0;
    for (const Step& step : build_schedule(algorithm, Shape{n, rank, 0, 1}).steps) sent += step.has(kSend) ? 1 : 0;
    most = std::max(most, sent);
  }
  return most;
}

/// Digits that count to n - 1 in base `radix`.
std::uint32_t levels(std::int32_t n, std::int32_t radix) {
  std::uint32_t levels = 0;
  for (std::int32_t reach = 1; reach < n; reach *= radix) ++levels;
  return levels;
}

TEST(Generator, CostsOfTreesAreThoseOfTheDocumentation) {
  for (const std::int32_t n : {2, 3, 4, 7, 8, 13, 64, 100}) {
    for (const std::int32_t radix : {4, 8}) {
      const std::string name = "knomial_" + std::to_string(radix);
      const auto most = static_cast<std::uint32_t>(radix - 1) * levels(n, radix);
      EXPECT_LE(most_messages_sent(*find_algorithm(Collective::kBroadcast, name), n), most) << n;
      EXPECT_EQ(most_messages_sent(*find_algorithm(Collective::kReduce, name), n), 1u);
    }
    EXPECT_EQ(most_messages_sent(knomial::kBroadcast4, 64), 9u);
    EXPECT_EQ(most_messages_sent(knomial::kBroadcast8, 64), 14u);
    // Parts are halves (in an all-reduce eighths) of a tile: no rank has children in both trees.
    EXPECT_LE(most_messages_sent(double_tree::kBroadcast, n), 2u) << n;
    EXPECT_LE(most_messages_sent(double_tree::kReduce, n), 2u) << n;
    EXPECT_LE(most_messages_sent(double_tree::kAllReduce, n), 4 * double_tree::kWaves) << n;
  }
}

/// Chunks that a rank sends at most.
std::uint32_t most_chunks_sent(const Algorithm& algorithm, std::int32_t n) {
  std::uint32_t most = 0;
  for (std::int32_t rank = 0; rank < n; ++rank) {
    std::uint32_t sent = 0;
    for (const Step& step : build_schedule(algorithm, Shape{n, rank, 0, 1}).steps) {
      sent += step.has(kSend) ? step.span.count : 0;
    }
    most = std::max(most, sent);
  }
  return most;
}

TEST(Generator, CostsOfAlgorithmsWithLongMessagesAreThoseOfTheDocumentation) {
  for (const std::int32_t n : {2, 3, 4, 7, 8, 13, 64, 100, 200, 256}) {
    const auto ranks = static_cast<std::uint32_t>(n);
    const auto up = static_cast<std::uint32_t>(ceil_log2(n));
    const auto down = static_cast<std::uint32_t>(floor_log2(n));
    const bool power = n == 1 << down;
    const std::uint32_t chunks = 1u << down;
    EXPECT_EQ(most_messages_sent(halving_doubling::kAllReduce, n), 2 * down + (power ? 0 : 2)) << n;
    EXPECT_EQ(most_chunks_sent(halving_doubling::kAllReduce, n), 2 * (chunks - 1) + (power ? 0 : chunks)) << n;
    EXPECT_EQ(most_messages_sent(bruck::kAllGather, n), up) << n;
    EXPECT_EQ(most_chunks_sent(bruck::kAllGather, n), ranks - 1) << n;
    EXPECT_EQ(most_messages_sent(hierarchical_rounds::kAllGather, n), up) << n;
    EXPECT_EQ(most_chunks_sent(hierarchical_rounds::kAllGather, n), ranks - 1) << n;
    EXPECT_LE(most_messages_sent(hierarchical_rounds::kReduceScatter, n), 2 * up) << n;
    EXPECT_EQ(most_chunks_sent(hierarchical_rounds::kReduceScatter, n), ranks - 1) << n;
    EXPECT_EQ(most_messages_sent(bruck::kAllToAll, n), up) << n;
    EXPECT_LE(most_chunks_sent(bruck::kAllToAll, n), up * ((ranks + 1) / 2)) << n;
    EXPECT_EQ(most_chunks_sent(bruck::kAllToAll, n) == down * ranks / 2, power) << n;
    const std::uint32_t low = (up + 1) / 2;  // binary digits of the distance that the first of two rounds travels
    EXPECT_EQ(most_messages_sent(hierarchical_all_to_all::kAllToAll, n), ranks - 1) << n;
    EXPECT_EQ(most_chunks_sent(hierarchical_all_to_all::kAllToAll, n), ranks - 1) << n;
    EXPECT_EQ(most_messages_sent(hierarchical_all_to_all::kAllToAll2, n), (1u << low) - 1 + ((ranks - 1) >> low)) << n;
    EXPECT_LT(most_chunks_sent(hierarchical_all_to_all::kAllToAll2, n), 2 * ranks) << n;
    EXPECT_LT(most_chunks_sent(hierarchical_all_to_all::kAllToAll3, n), 3 * ranks) << n;
    EXPECT_LE(most_messages_sent(recursive_halving::kReduceScatter, n), (power ? 1 : 2) * up) << n;
    EXPECT_EQ(most_chunks_sent(recursive_halving::kReduceScatter, n), ranks - 1) << n;
    for (const Algorithm& algorithm : {pat::kReduceScatter, pat::kAllGather}) {
      const std::uint32_t groups = (ranks + 63) / 64;
      EXPECT_LE(most_messages_sent(algorithm, n), n <= 64 ? up : 7 * groups) << n;
      EXPECT_EQ(most_chunks_sent(algorithm, n), ranks - 1) << n;
    }
    EXPECT_LE(most_messages_sent(scatter_all_gather::kBroadcast, n), up + ranks - 1) << n;
    EXPECT_EQ(most_chunks_sent(scatter_all_gather::kBroadcast, n), 2 * (ranks - 1)) << n;
    EXPECT_EQ(most_messages_sent(knomial::kGather2, n), 1u);
    EXPECT_EQ(most_messages_sent(knomial::kScatter2, n), up);
    EXPECT_LE(most_messages_sent(knomial::kScatter4, n), 3 * levels(n, 4));
    EXPECT_EQ(most_chunks_sent(knomial::kScatter2, n), ranks - 1);
  }
}

TEST(Generator, CostsAreThoseOfTheDocumentation) {
  for (const std::int32_t n : {2, 3, 4, 7, 8, 13, 64}) {
    const auto ranks = static_cast<std::uint32_t>(n);
    const auto up = static_cast<std::uint32_t>(ceil_log2(n));
    const auto down = static_cast<std::uint32_t>(floor_log2(n));
    const std::uint32_t folded = n == 1 << down ? 0 : 1;
    EXPECT_EQ(most_messages_sent(ring::kAllReduce, n), 2 * (ranks - 1));
    EXPECT_EQ(most_messages_sent(ring::kReduceScatter, n), ranks - 1);
    EXPECT_EQ(most_messages_sent(ring::kAllGather, n), ranks - 1);
    EXPECT_EQ(most_messages_sent(all_pairs::kAllReduce, n), 1u);
    EXPECT_EQ(most_messages_sent(all_pairs::kAllReduceTwoShot, n), ranks);
    EXPECT_EQ(most_messages_sent(linear::kAllReduce, n), 1u);
    EXPECT_EQ(most_messages_sent(all_pairs::kReduceScatter, n), ranks - 1);
    EXPECT_EQ(most_messages_sent(all_pairs::kAllGather, n), 1u);
    EXPECT_EQ(most_messages_sent(recursive_doubling::kAllReduce, n), down + folded);
    EXPECT_EQ(most_messages_sent(recursive_doubling::kBarrier, n), down + folded);
    EXPECT_EQ(most_messages_sent(dissemination::kBarrier, n), up);
    EXPECT_EQ(most_messages_sent(chain::kBroadcast, n), 1u);
    EXPECT_EQ(most_messages_sent(chain::kReduce, n), 1u);
    EXPECT_EQ(most_messages_sent(tree::kBroadcast, n), up);
    EXPECT_EQ(most_messages_sent(tree::kReduce, n), 1u);
    EXPECT_EQ(most_messages_sent(all_pairs::kGather, n), 1u);
    EXPECT_EQ(most_messages_sent(all_pairs::kScatter, n), ranks - 1);
    EXPECT_EQ(most_messages_sent(all_pairs::kAllToAll, n), ranks - 1);
    EXPECT_EQ(most_messages_sent(pairwise::kAllToAll, n), ranks - 1);
    EXPECT_EQ(most_messages_sent(pairwise::kReduceScatter, n), ranks - 1);
    EXPECT_EQ(most_messages_sent(pairwise::kAllGather, n), ranks - 1);
  }
}

}  // namespace
}  // namespace tutti

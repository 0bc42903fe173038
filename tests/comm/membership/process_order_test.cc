// Covers comm/membership/process_order.cc.
// The order of processes: who is connected to whom, and that whoever is left can reach whoever is left.
#include "comm/membership/process_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <string>
#include <tuple>

#include "support/sanitized.h"

namespace tutti {
namespace {

ProcessId process_id(int number) {
  ProcessId id{};
  id[0] = static_cast<std::byte>(number & 255);
  id[1] = static_cast<std::byte>(number >> 8 & 255);
  id[15] = static_cast<std::byte>(number >> 16);
  return id;
}

/// `hosts` and `processes`: where each rank lives.
MemberList members_of(const std::vector<int>& hosts, const std::vector<int>& processes) {
  std::vector<Member> members(hosts.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    members[i].rank = Rank{static_cast<std::int32_t>(i)};
    members[i].process = process_id(processes[i]);
    members[i].host = std::make_shared<const MemberHost>(MemberHost{.id = "host " + std::to_string(hosts[i])});
  }
  return MemberList(members);
}

/// n processes of one rank each, on random hosts.
MemberList scattered(std::size_t n, int hosts, std::mt19937& random) {
  std::vector<int> host(n);
  std::vector<int> process(n);
  for (std::size_t i = 0; i < n; ++i) {
    host[i] = std::uniform_int_distribution(0, hosts - 1)(random);
    process[i] = static_cast<int>(i);
  }
  return members_of(host, process);
}

bool contains(const std::vector<std::size_t>& places, std::size_t place) {
  return std::find(places.begin(), places.end(), place) != places.end();
}

std::vector<Rank> ranks_of(const ProcessOrder::Place& place) { return {place.ranks.begin(), place.ranks.end()}; }

TEST(ProcessOrder, HostsAndProcessesStandTogether) {
  const auto members = members_of({7, 3, 7, 3, 7, 5}, {1, 2, 3, 2, 1, 4});
  const ProcessOrder order(members, 32);
  ASSERT_EQ(order.size(), 4u);
  EXPECT_EQ(order[0].process, process_id(1));
  EXPECT_EQ(ranks_of(order[0]), (std::vector<Rank>{Rank{0}, Rank{4}}));
  EXPECT_EQ(order[1].process, process_id(3));
  EXPECT_EQ(ranks_of(order[2]), (std::vector<Rank>{Rank{1}, Rank{3}}));
  EXPECT_EQ(order[0].host_end, 2u);
  EXPECT_EQ(order[3].host_first, 3u);
  EXPECT_EQ(order.find(process_id(4)), 3u);
  EXPECT_EQ(order.find(process_id(9)), std::nullopt);
}

// Such a table is wrong, but it is for others to refuse it.
TEST(ProcessOrder, AHostIsWhatHasOneIdWhateverElseItsRanksSayOfIt) {
  std::vector<Member> members(3);
  for (std::size_t i = 0; i < members.size(); ++i) {
    members[i].rank = Rank{static_cast<std::int32_t>(i)};
    members[i].process = process_id(static_cast<int>(i));
    members[i].host = std::make_shared<const MemberHost>(
        MemberHost{.name = std::to_string(i), .id = i == 1 ? "another host" : "host"});
  }
  const MemberList list(members);
  const ProcessOrder order(list, 32);
  EXPECT_EQ(order[0].host_end, 2u);
  EXPECT_EQ(ranks_of(order[1]), std::vector<Rank>{Rank{2}});
  EXPECT_EQ(order[1].host_first, 0u);
  EXPECT_EQ(order[2].host_first, 2u);
}

TEST(ProcessOrder, AProcessOnTwoHostsIsOnThatOfItsLowestRank) {
  const auto members = members_of({7, 3, 5}, {1, 1, 2});
  const ProcessOrder order(members, 32);
  ASSERT_EQ(order.size(), 2u);
  EXPECT_EQ(ranks_of(order[0]), (std::vector<Rank>{Rank{0}, Rank{1}}));
  EXPECT_EQ(order[1].host_first, 1u);
  EXPECT_EQ(order[1].host_end, 2u);
}

/// Ranks as the order must have them: by their hosts' lowest ranks, then by their processes' lowest ranks.
std::vector<Rank> sorted_ranks(const std::vector<int>& hosts, const std::vector<int>& processes) {
  const auto lowest = [](const std::vector<int>& where, std::size_t rank) {
    return std::find(where.begin(), where.end(), where[rank]) - where.begin();
  };
  std::vector<Rank> ranks;
  for (int rank = 0; rank < static_cast<int>(hosts.size()); ++rank) ranks.push_back(Rank{rank});
  std::sort(ranks.begin(), ranks.end(), [&](Rank a, Rank b) {
    const auto key = [&](Rank rank) {
      const auto leader = static_cast<std::size_t>(lowest(processes, static_cast<std::size_t>(rank.value)));
      return std::tuple(lowest(hosts, leader), leader, rank);
    };
    return key(a) < key(b);
  });
  return ranks;
}

TEST(ProcessOrder, RanksAreSortedByHostAndProcess) {
  std::mt19937 random(7);
  const auto draw = [&](int below) { return std::uniform_int_distribution(0, below - 1)(random); };
  for (int round = 0; round < 100; ++round) {
    std::vector<int> hosts(static_cast<std::size_t>(1 + draw(60))), processes(hosts.size());
    const int host_count = 1 + draw(20), process_count = 1 + draw(60);
    for (int& host : hosts) host = draw(host_count);
    for (int& process : processes) process = draw(process_count) << 16;  // ids that differ in their last byte only
    const MemberList members = members_of(hosts, processes);
    const ProcessOrder order(members, 32);
    std::vector<Rank> ranks;
    for (std::size_t place = 0; place < order.size(); ++place) {
      EXPECT_EQ(order.find(order[place].process), place);
      for (const Rank rank : order[place].ranks) {
        EXPECT_EQ(members.process(rank), order[place].process);
        ranks.push_back(rank);
      }
    }
    EXPECT_EQ(ranks, sorted_ranks(hosts, processes));
  }
}

TEST(ProcessOrder, AsManyProcessesAsAJoinMayHaveAreFound) {
  std::mt19937 random(11);
  const MemberList members = scattered(kMaxRanks, kMaxRanks / 8, random);
  const ProcessOrder order(members, 32);
  ASSERT_EQ(order.size(), 131'072u);
  for (const std::size_t place : {0, 1, 65'535, 65'536, 100'000, kMaxRanks - 1}) {
    EXPECT_EQ(order.find(order[place].process), place);
    const Rank rank = order[place].ranks.front();
    EXPECT_EQ(members.process(rank), order[place].process);
    EXPECT_EQ(members.host(order[order[place].host_first].ranks.front()).id, members.host(rank).id);
  }
}

TEST(ProcessOrder, ParentsAndChildrenAreTheSameTreeAndConnected) {
  std::mt19937 random(5);
  for (std::size_t n = 1; n < 70; ++n) {
    const MemberList members = scattered(n, 3, random);
    const ProcessOrder order(members, 0);
    std::size_t edges = 0;
    for (std::size_t place = 0; place < n; ++place) {
      const std::vector<std::size_t> children = order.children(place);
      EXPECT_TRUE(std::is_sorted(children.begin(), children.end()));
      for (const std::size_t child : children) {
        EXPECT_EQ(order.parent(child), place) << "of " << child << " of " << n;
        EXPECT_TRUE(contains(order.neighbours(place), child)) << place << " and " << child << " of " << n;
      }
      edges += children.size();
    }
    EXPECT_EQ(edges, n - 1);
  }
}

TEST(ProcessOrder, FewAreAllConnected) {
  std::mt19937 random(1);
  const MemberList members = scattered(9, 3, random);
  const ProcessOrder order(members, 9);
  EXPECT_TRUE(order.is_mesh());
  for (std::size_t place = 0; place < 9; ++place) EXPECT_EQ(order.neighbours(place).size(), 8u);
}

TEST(ProcessOrder, ManyHaveAFewNeighboursAndTreesAmongThem) {
  std::mt19937 random(2);
  for (std::size_t n = 1; n <= 200; n += test::kSanitized && n > 66 ? 13 : 1) {
    const MemberList members = scattered(n, static_cast<int>(1 + n % 17), random);
    const ProcessOrder order(members, 0);
    ASSERT_EQ(order.size(), n);
    for (std::size_t place = 0; place < n; ++place) {
      const auto near = order.neighbours(place);
      EXPECT_LE(near.size(), 2 * static_cast<std::size_t>(std::bit_width(n)));
      EXPECT_FALSE(contains(near, place));
      for (const std::size_t other : near) EXPECT_TRUE(contains(order.neighbours(other), place)) << n;
      EXPECT_EQ(order.parent(place).has_value(), place > 0);
      EXPECT_TRUE(place == 0 || contains(near, *order.parent(place))) << n << " " << place;
      const auto above = order.host_parent(place);
      EXPECT_EQ(above.has_value(), place != order[place].host_first);
      if (!above) continue;
      EXPECT_TRUE(contains(near, *above)) << n << " " << place;
      EXPECT_LT(*above, place);
      EXPECT_EQ(order[*above].host_first, order[place].host_first);
    }
  }
}

/// How many of those present the first of them reaches by fingers, in both directions.
std::size_t reached(const ProcessOrder& order, const std::vector<bool>& present) {
  std::vector<std::vector<std::size_t>> edges(present.size());
  for (std::size_t place = 0; place < present.size(); ++place) {
    if (!present[place]) continue;
    for (const std::size_t other : order.fingers(place, present)) {
      EXPECT_TRUE(present[other]);
      edges[place].push_back(other);
      edges[other].push_back(place);
    }
  }
  std::vector<std::size_t> open;
  std::vector<bool> seen(present.size());
  const auto visit = [&](std::size_t place) {
    if (!seen[place]) open.push_back(place);
    seen[place] = true;
  };
  visit(static_cast<std::size_t>(std::find(present.begin(), present.end(), true) - present.begin()));
  for (std::size_t i = 0; i < open.size(); ++i)
    for (const std::size_t other : std::vector(edges[open[i]])) visit(other);
  return open.size();
}

TEST(ProcessOrder, WhoIsLeftReachesWhoIsLeft) {
  std::mt19937 random(3);
  for (std::size_t n = 2; n <= 100; ++n) {
    const MemberList members = scattered(n, 4, random);
    const ProcessOrder order(members, 0);
    for (const double share : {0.02, 0.3, 0.9}) {
      std::vector<bool> present(n);
      for (std::size_t i = 0; i < n; ++i) present[i] = std::bernoulli_distribution(share)(random);
      present[n / 2] = true;
      EXPECT_EQ(reached(order, present), static_cast<std::size_t>(std::count(present.begin(), present.end(), true)));
    }
  }
}

}  // namespace
}  // namespace tutti

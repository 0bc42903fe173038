// Communicators whose processes are connected to a few others each.
#pragma once

#include <functional>
#include <string>

#include "support/joining_processes.h"

namespace tutti::test {

inline constexpr int kRanks = 14;  // of 13 others each process is connected to 8 at most

/// How the ranks are placed: all on one host, or each on one of `hosts` that it pretends to be on.
struct Placement {
  const char* name;
  int hosts;
};

inline const auto kPlacements =
    testing::Values(Placement{"one_host", 1}, Placement{"three_hosts", 3}, Placement{"all_apart", kRanks});
inline std::string placement_name(const testing::TestParamInfo<Placement>& info) { return info.param.name; }

class FewNeighbours : public testing::TestWithParam<Placement> {
 protected:
  static Status join_sparse(int rank, SharedPage& page, JoinResult* joined, Bytes memory = kSegmentSize) {
    IdBytes id;
    TUTTI_TRY(obtain_id(rank, page, &id));
    JoinRequest request = request_for(rank, kRanks, id);
    request.mesh = 0;
    request.segment_bytes = memory;
    if (GetParam().hosts > 1) request.settings.host_id = "host " + std::to_string(rank % GetParam().hosts);
    request.settings.transport = TransportKind::kTcp;  // also between ranks of one host
    request.settings.reconnect_seconds = 1000;
    return join(request, joined);
  }
  static void run(const RankMain& main) {
    JoiningProcesses processes;
    processes.start_all(kRanks, main);
    processes.wait();
    expect_all_ok(processes.page(), kRanks);
  }
  /// Kills a rank once all have set mark 0, and then sets mark 1. All others must end well.
  static void run_and_kill(int victim, const RankMain& main) {
    JoiningProcesses processes;
    processes.start_all(kRanks, main);
    ASSERT_TRUE(processes.page().wait_for_mark(0, kRanks));
    processes.kill(victim);
    processes.page().mark(1);
    processes.wait();
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim) continue;
      EXPECT_EQ(processes.page().code(rank), Code::kOk) << "rank " << rank << ": " << processes.page().text(rank);
    }
  }
};

/// All lives become as `expected`, without the end of the time for reconnections.
inline Status expect_lives(const Membership& membership, const std::function<Liveness(int rank)>& expected) {
  for (int peer = 0; peer < kRanks; ++peer) {
    const bool came = comes_true([&] { return membership.liveness(Rank{peer}) == expected(peer); });
    TUTTI_TRY(
        expect(came, fmt::format("rank {} has liveness {}", peer, static_cast<int>(membership.liveness(Rank{peer})))));
  }
  return {};
}

}  // namespace tutti::test

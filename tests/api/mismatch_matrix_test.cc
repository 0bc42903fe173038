// Every pair of different calls: where one rank makes another call than the others, all ranks get tuttiMismatch within
// a second, at this call or, where a call only sends, from the next one or from GetAsyncError. The calls are made from
// the table of collectives.
// Covers comm/failure/culprit.cc, comm/failure/wait_judge.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/types.h"
#include "support/depth.h"
#include "support/ranks.h"
#include "support/texts.h"
#include "support/yardstick.h"

namespace tutti::test {
namespace {

using Clock = std::chrono::steady_clock;

/// A call that all ranks of a pair of calls make, or one of them.
struct MadeCall {
  Collective collective = Collective::kNone;
  std::size_t count = 100;
  tuttiDataType_t type = tuttiFloat32;
  tuttiRedOp_t op = tuttiSum;
  int root = 0;
  tuttiDataType_t wire = tuttiFloat32;
  bool uneven = false;  ///< blocks of a v-form are not of equal size
  std::string words;    ///< in what differs from the collective's plain call, as messages say it

  std::string text() const { return std::string(name_of(collective)) + " " + words; }
};

bool is_made_by_users(Collective collective) { return has_algorithms(collective) && collective != Collective::kNone; }

bool is_v_form(Collective collective) {
  return collective == Collective::kAllGatherV || collective == Collective::kAllToAllV;
}

/// The plain call of each collective, and one for each thing in which two calls of it can differ.
std::vector<MadeCall> all_calls() {
  std::vector<MadeCall> calls;
  for (int number = 1; number < static_cast<int>(kCollectives); ++number) {
    const auto collective = static_cast<Collective>(number);
    if (!is_made_by_users(collective)) continue;
    MadeCall plain;
    plain.collective = collective;
    const auto add = [&](const std::string& words, const auto& change) {
      MadeCall call = plain;
      change(call);
      call.words = words;
      calls.push_back(call);
    };
    calls.push_back(plain);
    if (collective == Collective::kBarrier) continue;
    if (is_v_form(collective)) {
      add("", [](MadeCall& call) { call.uneven = true; });
    } else {
      add("101", [](MadeCall& call) { call.count = 101; });
      add(" 0 ", [](MadeCall& call) { call.count = 0; });
    }
    add("int32", [](MadeCall& call) { call.type = tuttiInt32; });
    if (reduces(collective)) add("max", [](MadeCall& call) { call.op = tuttiMax; });
    if (is_rooted(collective)) add("root 1", [](MadeCall& call) { call.root = 1; });
    if (reduces(collective)) add("as bfloat16", [](MadeCall& call) { call.wire = tuttiBfloat16; });
  }
  return calls;
}

/// Buffers and blocks of one rank, large enough for each of these calls.
class Caller {
 public:
  Caller(tuttiComm_t comm, int rank, int ranks, tuttiStream_t stream, bool groups)
      : comm_(comm), rank_(rank), ranks_(ranks), stream_(stream), groups_(groups), send_(1024), recv_(1024) {}

  tuttiResult_t make(const MadeCall& call) {
    const tuttiResult_t result = groups_ ? issue_in_group(call) : issue(call);
    return result == tuttiSuccess && stream_ != nullptr ? tuttiStreamSynchronize(stream_) : result;
  }

 private:
  /// After a call that all ranks make.
  tuttiResult_t issue_in_group(const MadeCall& call) {
    char own = 0;
    std::array<char, Shared::kMaxRanks> all{};
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    EXPECT_EQ(tuttiAllGather(&own, all.data(), 1, tuttiInt8, comm_, stream_), tuttiSuccess);
    EXPECT_EQ(issue(call), tuttiSuccess) << call.text();
    return tuttiGroupEnd();
  }
  tuttiResult_t issue(const MadeCall& c) {
    const void* const send = send_.data();
    void* const recv = recv_.data();
    if (c.wire != tuttiFloat32) return issue_with_wire_type(c);
    switch (c.collective) {
      case Collective::kAllReduce:
        return tuttiAllReduce(send, recv, c.count, c.type, c.op, comm_, stream_);
      case Collective::kReduceScatter:
        return tuttiReduceScatter(send, recv, c.count, c.type, c.op, comm_, stream_);
      case Collective::kReduce:
        return tuttiReduce(send, recv, c.count, c.type, c.op, c.root, comm_, stream_);
      case Collective::kAllGather:
        return tuttiAllGather(send, recv, c.count, c.type, comm_, stream_);
      case Collective::kBroadcast:
        return tuttiBroadcast(send, recv, c.count, c.type, c.root, comm_, stream_);
      case Collective::kBarrier:
        return tuttiBarrier(comm_, stream_);
      case Collective::kGather:
        return tuttiGather(send, recv, c.count, c.type, c.root, comm_, stream_);
      case Collective::kScatter:
        return tuttiScatter(send, recv, c.count, c.type, c.root, comm_, stream_);
      case Collective::kAllToAll:
        return tuttiAllToAll(send, recv, c.count, c.type, comm_, stream_);
      default:
        return issue_v_form(c);
    }
  }

  /// Uneven: one element more to and from each rank.
  tuttiResult_t issue_v_form(const MadeCall& c) {
    std::array<std::size_t, Shared::kMaxRanks> counts{}, firsts{};
    for (int peer = 0; peer < ranks_; ++peer) {
      counts[static_cast<std::size_t>(peer)] = c.uneven ? 101 : 100;
      firsts[static_cast<std::size_t>(peer)] = 101 * static_cast<std::size_t>(peer);
    }
    const void* const send = send_.data();
    if (c.collective == Collective::kAllGatherV)
      return tuttiAllGatherV(send, recv_.data(), counts[static_cast<std::size_t>(rank_)], counts.data(), firsts.data(),
                             c.type, comm_, stream_);
    EXPECT_EQ(c.collective, Collective::kAllToAllV) << name_of(c.collective) << " is not known here";
    return tuttiAllToAllV(send, counts.data(), firsts.data(), recv_.data(), counts.data(), firsts.data(), c.type, comm_,
                          stream_);
  }

  tuttiResult_t issue_with_wire_type(const MadeCall& c) {
    const void* const send = send_.data();
    void* const recv = recv_.data();
    if (c.collective == Collective::kAllReduce)
      return tuttiAllReduceWire(send, recv, c.count, c.type, c.op, c.wire, comm_, stream_);
    if (c.collective == Collective::kReduce)
      return tuttiReduceWire(send, recv, c.count, c.type, c.op, c.root, c.wire, comm_, stream_);
    EXPECT_EQ(c.collective, Collective::kReduceScatter) << name_of(c.collective) << " is not known here";
    return tuttiReduceScatterWire(send, recv, c.count, c.type, c.op, c.wire, comm_, stream_);
  }

  tuttiComm_t comm_;
  const int rank_, ranks_;
  tuttiStream_t stream_;
  const bool groups_;
  std::vector<float> send_, recv_;
};

/// What one rank of a pair sees, on a communicator of the pair's own.
void make_and_judge(Caller& caller, tuttiComm_t comm, int rank, const MadeCall& own, const MadeCall& usual,
                    const MadeCall& odd, int odd_rank) {
  Yardstick yardstick;
  const Clock::time_point begin = Clock::now();
  tuttiResult_t result = caller.make(own);
  if (result == tuttiSuccess && rank % 2 == 0) result = tuttiBarrier(comm, nullptr);
  if (result == tuttiSuccess)
    await([&] { return tuttiCommGetAsyncError(comm, &result) != tuttiSuccess || result != tuttiSuccess; }, "an error");
  const std::string late = yardstick.judge(1, Clock::now() - begin);
  const std::string trace = "rank " + std::to_string(rank) + "; rank " + std::to_string(odd_rank) + " makes " +
                            odd.text() + ", the others " + usual.text();
  EXPECT_EQ(result, tuttiMismatch) << trace;
  EXPECT_EQ(late, "") << trace;
  EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiMismatch) << trace;
  const std::string text = tuttiGetLastError(comm);
  EXPECT_TRUE(contains(text, "rank " + std::to_string(odd_rank))) << trace << ": " << text;
  for (const MadeCall* call : {&usual, &odd}) {
    EXPECT_TRUE(contains(text, name_of(call->collective))) << trace << ": " << text;
    EXPECT_TRUE(contains(text, call->words)) << trace << ": " << text;
  }
}

/// Every `step`-th pair from `first` on, each on a split of its own; in turn blocking, on a stream and in a group, with
/// another rank that makes the odd call.
void judge_pairs(tuttiComm_t comm, int rank, int ranks, std::size_t first, std::size_t step) {
  const std::vector<MadeCall> calls = all_calls();
  for (std::size_t pair = first; pair < calls.size() * calls.size(); pair += step) {
    const MadeCall& usual = calls[pair / calls.size()];
    const MadeCall& odd = calls[pair % calls.size()];
    if (&usual == &odd) continue;
    const int odd_rank = static_cast<int>((pair / step) % static_cast<std::size_t>(ranks));
    tuttiComm_t part = nullptr;
    ASSERT_EQ(tuttiCommSplit(comm, 0, 0, &part, nullptr), tuttiSuccess) << tuttiGetLastError(comm);
    tuttiStream_t stream = nullptr;
    if (pair % 3 == 1) {
      ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    }
    Caller caller(part, rank, ranks, stream, pair % 3 == 2);
    make_and_judge(caller, part, rank, rank == odd_rank ? odd : usual, usual, odd, odd_rank);
    EXPECT_EQ(tuttiCommDestroy(part), tuttiMismatch);
    if (stream != nullptr) (void)tuttiStreamDestroy(stream);
  }
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(comm);
}

struct MatrixPlace {
  const char* name;
  const char* transport;
  const char* hosts;  ///< a letter for each rank; empty: one host
  int ranks;
};

class TimedMismatches : public ::testing::TestWithParam<std::tuple<MatrixPlace, int>> {};

// A call that hangs is an error by its timeout, so that the other pairs are tried, too.
TEST_P(TimedMismatches, OfEveryPairOfCallsAreNamed) {
  constexpr std::size_t kParts = 4;
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const ScopedSetting timeout("TUTTI_TIMEOUT", "10");
  const auto& [place, part] = GetParam();
  const ScopedSetting transport("TUTTI_TRANSPORT", place.transport);
  const std::string hosts = place.hosts;
  const int ranks = place.ranks;
  // Between hosts a pair takes 0.1 s: that of a wait before peers are asked.
  const std::size_t step = !covers_all()                           ? (kSanitized ? 151 : 37) * kParts
                           : place.transport == std::string("shm") ? kParts
                                                                   : 5 * kParts;
  Processes processes(
      ranks,
      [ranks, first = static_cast<std::size_t>(part), step](tuttiComm_t comm, int rank, Shared&) {
        judge_pairs(comm, rank, ranks, first, step);
      },
      [&](int rank) {
        if (!hosts.empty()) ::setenv("TUTTI_HOSTID", hosts.substr(static_cast<std::size_t>(rank), 1).c_str(), 1);
      });
  for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank;
}

INSTANTIATE_TEST_SUITE_P(
    Over, TimedMismatches,
    ::testing::Combine(::testing::Values(MatrixPlace{"shm_2", "shm", "", 2}, MatrixPlace{"shm_3", "shm", "", 3},
                                         MatrixPlace{"shm_5", "shm", "", 5}, MatrixPlace{"tcp_2", "tcp", "", 2},
                                         MatrixPlace{"tcp_4", "tcp", "", 4}, MatrixPlace{"mixed_4", "auto", "aabb", 4}),
                       ::testing::Range(0, 4)),
    [](const auto& info) {
      return std::string(std::get<0>(info.param).name) + "_" + std::to_string(std::get<1>(info.param));
    });

}  // namespace
}  // namespace tutti::test

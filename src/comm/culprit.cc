#include "comm/culprit.h"

#include <fmt/format.h>

#include <vector>

namespace tutti {

namespace {

bool same_call(const Call& a, const Call& b) { return fingerprint_of(a) == fingerprint_of(b); }

std::string join_ranks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i != 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

}  // namespace

std::string describe(const Call& call) {
  std::string text = name_of(call.collective);
  switch (call.collective) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
      text += fmt::format(" of {} {}, {}", call.count, name_of(call.type), name_of(call.op));
      break;
    case Collective::kReduce:
      text += fmt::format(" of {} {}, {}, root {}", call.count, name_of(call.type), name_of(call.op), call.root.value);
      break;
    case Collective::kBroadcast:
      text += fmt::format(" of {} {}, root {}", call.count, name_of(call.type), call.root.value);
      break;
    case Collective::kAllGather:
      text += fmt::format(" of {} {}", call.count, name_of(call.type));
      break;
    default:
      break;
  }
  return text + fmt::format(" (operation {})", call.sequence);
}

Disagreement find_disagreement(const Call& mine, Rank self, int ranks, const BoardReader& board) {
  for (Rank rank{0}; rank.value < ranks; ++rank) {
    if (rank == self) continue;
    const CallBoard* const theirs = board(rank);
    if (theirs == nullptr) continue;
    const PostedCall posted = theirs->find(mine.sequence);
    if (posted.known && !same_call(posted.call, mine)) return Disagreement{rank, posted.call};
  }
  return {};
}

Disagreement find_first_disagreement(Call* mine, Rank other, const CallBoard& own, const BoardReader& board) {
  const CallBoard* const theirs = board(other);
  if (theirs == nullptr) return {};
  const std::uint64_t oldest = mine->sequence > CallBoard::kHistory ? mine->sequence - CallBoard::kHistory + 1 : 1;
  for (std::uint64_t sequence = oldest; sequence <= mine->sequence; ++sequence) {
    const PostedCall here = own.find(sequence);
    const PostedCall there = theirs->find(sequence);
    if (!here.known || !there.known || same_call(here.call, there.call)) continue;
    *mine = here.call;
    return Disagreement{other, there.call};
  }
  return {};
}

std::string describe(const Disagreement& other, const Call& mine, Rank self) {
  return fmt::format("rank {} called {} where rank {} called {}", other.rank.value, describe(other.call), self.value,
                     describe(mine));
}

Culprit find_culprit(const Call& mine, Rank missing, int ranks, const BoardReader& board) {
  Rank rank = missing;
  for (int hop = 0; hop < ranks; ++hop) {
    const CallBoard* const theirs = board(rank);
    if (theirs == nullptr) return {rank, fmt::format("rank {} has sent nothing", rank.value)};
    const BoardState state = theirs->state();
    if (state.sequence < mine.sequence) {
      const PostedCall last = theirs->find(state.sequence);
      std::string doing = "it has made no call yet";
      if (last.known) {
        const char* const how = state.state == CallState::kDone ? "its last call was" : "it is still in";
        doing = fmt::format("{} {}", how, describe(last.call));
      }
      return {rank, fmt::format("rank {} has not called {}: {}", rank.value, describe(mine), doing)};
    }
    const bool waits = state.sequence == mine.sequence && state.waiting_for != kNoRank && state.waiting_for != rank &&
                       state.waiting_for.value < ranks;
    if (!waits) return {rank, fmt::format("rank {} is in the call but does not move", rank.value)};
    rank = state.waiting_for;
  }
  return {missing, fmt::format("rank {} waits in a circle with others", missing.value)};
}

std::string missing_ranks(const Call& mine, Rank self, int ranks, const BoardReader& board) {
  std::vector<int> missing;
  for (Rank rank{0}; rank.value < ranks; ++rank) {
    if (rank == self) continue;
    const CallBoard* const theirs = board(rank);
    if (theirs != nullptr && theirs->state().sequence < mine.sequence) missing.push_back(rank.value);
  }
  return missing.empty() ? std::string() : join_ranks(missing);
}

}  // namespace tutti

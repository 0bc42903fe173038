#include "comm/failure/culprit.h"

#include <fmt/format.h>

#include <vector>

#include "comm/membership/messages.h"

namespace tutti {

namespace {

/// A board that was never written: no answer has come from there, or the rank has not come so far.
constexpr const char* kSilent = "nothing was heard of it yet";
constexpr const char* kUnknown = "it is not known which rank is late";

/// "sum", or "operation 9 made by the user".
std::string op_text(RedOp op) {
  return is_user_made(op) ? fmt::format("operation {} made by the user", static_cast<int>(op)) : name_of(op);
}

/// A rank that moves nothing goes where the others are.
bool same_call(Call a, Call b) {
  if (a.memory_unknown || b.memory_unknown) a.on_device = b.on_device = a.memory_unknown = b.memory_unknown = false;
  return fingerprint_of(a) == fingerprint_of(b);
}

}  // namespace

std::string describe(const Call& call) {
  std::string text = name_of(call.collective);
  switch (call.collective) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
      text += fmt::format(" of {} {}, {}", call.count, name_of(call.type), op_text(call.op));
      break;
    case Collective::kReduce:
      text += fmt::format(" of {} {}, {}, root {}", call.count, name_of(call.type), op_text(call.op), call.root.value);
      break;
    case Collective::kBroadcast:
      text += fmt::format(" of {} {}, root {}", call.count, name_of(call.type), call.root.value);
      break;
    case Collective::kAllGather:
    case Collective::kAllToAll:
      text += fmt::format(" of {} {}", call.count, name_of(call.type));
      break;
    case Collective::kGather:
    case Collective::kScatter:
      text += fmt::format(" of {} {}, root {}", call.count, name_of(call.type), call.root.value);
      break;
    case Collective::kAllGatherV:
      text += fmt::format(" of {}, recvcounts {:08x}", name_of(call.type), call.count >> 32);
      break;
    case Collective::kAllToAllV:
      text += fmt::format(" of {}", name_of(call.type));
      break;
    default:
      break;
  }
  if (call.wire != DataType::kInt8) text += fmt::format(" as {}", name_of(call.wire));
  if (call.on_device) text += " on device memory";
  return text + fmt::format(" (operation {})", call.sequence);
}

std::string describe(const Transfer& transfer) {
  const bool sends = transfer.kind == Transfer::Kind::kSend;
  const std::string peer = transfer.peer == kNoRank ? "any rank" : fmt::format("rank {}", transfer.peer.value);
  return fmt::format("{} of {} {} {} {} (tag {})", sends ? "send" : "receive", transfer.count.value,
                     name_of(transfer.type), sends ? "to" : "from", peer, transfer.tag);
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
  Call there = other.call;
  there.on_device = mine.on_device;
  const bool apart = other.call.on_device != mine.on_device && same_call(there, mine);
  return fmt::format("rank {} called {} where rank {} called {}{}", other.rank.value, describe(other.call), self.value,
                     describe(mine), apart ? ": host and device buffers do not go together in one call" : "");
}

namespace {

/// Whether a rank that waits for this one in that operation waits with reason: it has not finished it.
bool holds_up(Rank rank, std::uint64_t sequence, const BoardReader& board) {
  const CallBoard* const theirs = board(rank);
  if (theirs == nullptr) return false;
  const BoardState state = theirs->state();
  return state.sequence < sequence || (state.sequence == sequence && state.state == CallState::kRunning);
}

}  // namespace

Culprit find_culprit(const Call& mine, Rank awaited, int ranks, const BoardReader& board) {
  Rank rank = awaited;
  if (awaited == kNoRank) return {kNoRank, kUnknown};
  for (int hop = 0; hop < ranks; ++hop) {
    const CallBoard* const theirs = board(rank);
    if (theirs == nullptr) return {rank, fmt::format("rank {} has sent nothing", rank.value)};
    const BoardState state = theirs->state();
    const Rank next = state.waiting_for.among(ranks);
    const bool in_transfers = state.state == CallState::kPointToPoint && next != kNoRank && next != rank;
    const bool is_held_up =
        state.state == CallState::kRunning && next != kNoRank && next != rank && holds_up(next, state.sequence, board);
    if (state.sequence < mine.sequence && (in_transfers || is_held_up)) {  // it comes here when its own wait is over
      rank = next;
      continue;
    }
    if (state.sequence < mine.sequence) {
      const PostedCall last = theirs->find(state.sequence);
      std::string doing = state.heard() ? "it has made no call yet" : kSilent;
      if (last.known) {
        const char* const how = state.state == CallState::kDone ? "its last call was" : "it is still in";
        doing = fmt::format("{} {}", how, describe(last.call));
      }
      return {rank, fmt::format("rank {} has not called {}: {}", rank.value, describe(mine), doing)};
    }
    const bool waits = state.sequence == mine.sequence && next != kNoRank && next != rank;
    if (!waits) return {rank, fmt::format("rank {} is in the call but does not move", rank.value)};
    rank = next;
  }
  return {awaited, fmt::format("rank {} waits in a circle with others", awaited.value)};
}

Culprit find_silent_peer(Rank self, Rank awaited, int ranks, const BoardReader& board) {
  Rank rank = awaited;
  if (awaited == kNoRank) return {kNoRank, kUnknown};
  if (awaited == self) return {self, fmt::format("rank {} has sent nothing to itself", self.value)};
  for (int hop = 0; hop < ranks && rank != self; ++hop) {
    const CallBoard* const theirs = board(rank);
    if (theirs == nullptr) return {rank, fmt::format("rank {} has not answered", rank.value)};
    const BoardState state = theirs->state();
    const Rank next = state.waiting_for.among(ranks);
    if (next == kNoRank || next == rank) {
      const PostedCall last = theirs->find(state.sequence);
      std::string doing = state.heard() ? "it has made no collective call yet" : kSilent;
      if (last.known)
        doing = fmt::format("{} {}", state.state == CallState::kRunning ? "it is still in" : "its last collective was",
                            describe(last.call));
      return {rank, fmt::format("rank {} has not answered: {}", rank.value, doing)};
    }
    rank = next;
  }
  return {awaited, fmt::format("rank {} waits in a circle with others", awaited.value)};
}

bool waits_in_circle(Rank self, Rank awaited, int ranks, const BoardReader& board) {
  Rank rank = awaited;
  for (int hop = 0; hop < ranks; ++hop) {
    if (rank == self) return true;
    const CallBoard* const theirs = rank == kNoRank ? nullptr : board(rank);
    if (theirs == nullptr) return false;
    rank = theirs->state().waiting_for.among(ranks);
  }
  return true;
}

Culprit find_absent(const Call& mine, Rank self, Rank awaited, int ranks, const BoardReader& board) {
  for (Rank rank{0}; rank.value < ranks; ++rank) {
    const CallBoard* const theirs = rank == self ? nullptr : board(rank);
    if (theirs != nullptr && theirs->state().sequence < mine.sequence) return find_culprit(mine, rank, ranks, board);
  }
  return find_culprit(mine, awaited, ranks, board);
}

namespace {

std::vector<Rank> absent_ranks(const Call& mine, Rank self, int ranks, const BoardReader& board) {
  std::vector<Rank> absent;
  for (Rank rank{0}; rank.value < ranks; ++rank) {
    if (rank == self) continue;
    const CallBoard* const theirs = board(rank);
    if (theirs != nullptr && theirs->state().sequence < mine.sequence) absent.push_back(rank);
  }
  return absent;
}

}  // namespace

std::string missing_ranks(const Call& mine, Rank self, int ranks, const BoardReader& board) {
  const std::vector<Rank> absent = absent_ranks(mine, self, ranks, board);
  return absent.empty() ? std::string() : text_of(absent);
}

std::string others_missing(const Call& mine, Rank self, int ranks, const BoardReader& board) {
  const std::vector<Rank> absent = absent_ranks(mine, self, ranks, board);
  return absent.size() < 2 ? std::string() : "; not there: " + text_of(absent);
}

}  // namespace tutti

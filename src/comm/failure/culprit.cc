#include "comm/failure/culprit.h"

#include <fmt/format.h>

#include <vector>

#include "comm/messages/messages.h"

namespace tutti {

namespace {

/// For a board that was never written, because no answer has come from there or the rank has not begun.
constexpr const char* kSilent = "nothing was heard of it yet";
constexpr const char* kUnknown = "it is not known which rank is late";

/// "sum", or "operation 9 made by the user".
std::string op_text(RedOp op) {
  return is_user_made(op) ? fmt::format("operation {} made by the user", static_cast<int>(op)) : name_of(op);
}

/// Whether two ranks called the same. A rank that moves nothing cannot tell device from host memory, so it agrees with
/// either.
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

Disagreement find_disagreement(const Call& mine, const PeerView& peers) {
  for (Rank rank{0}; rank.value < peers.ranks; ++rank) {
    if (rank == peers.self) continue;
    const CallBoard* const theirs = peers.board(rank);
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

namespace {

std::string what_it_did(const Call& call) {
  return call.collective == Collective::kFinalize ? "has left the communicator" : "called " + describe(call);
}

}  // namespace

std::string describe(const Disagreement& other, const Call& mine, Rank self) {
  Call there = other.call;
  there.on_device = mine.on_device;
  const bool apart = other.call.on_device != mine.on_device && same_call(there, mine);
  return fmt::format("rank {} {} where rank {} {}{}", other.rank.value, what_it_did(other.call), self.value,
                     what_it_did(mine), apart ? ": host and device buffers do not go together in one call" : "");
}

namespace {

/// Whether another rank may have to wait for this one in that operation, because this one has not finished it.
bool holds_up(Rank rank, std::uint64_t sequence, const BoardReader& board) {
  const CallBoard* const theirs = board(rank);
  if (theirs == nullptr) return false;
  const BoardState state = theirs->state();
  return state.sequence < sequence || (state.sequence == sequence && state.state == CallState::kRunning);
}

/// Whom this rank waits for; kNoRank if it waits for nobody.
Rank awaited_by(Rank rank, const BoardState& state, int ranks) {
  const Rank next = state.waiting_for.among(ranks);
  return next == rank ? kNoRank : next;
}

/// "it is still in all_reduce ...", as far as the board says so.
std::string what_it_does(const CallBoard& board, const BoardState& state, const char* idle) {
  const PostedCall last = board.find(state.sequence);
  if (!last.known) return state.heard() ? idle : kSilent;
  const char* const how = state.state == CallState::kRunning ? "it is still in" : "its last call was";
  return fmt::format("{} {}", how, describe(last.call));
}

Culprit does_not_answer(Rank rank, const CallBoard* board) {
  const std::string doing =
      board == nullptr ? std::string(kSilent) : what_it_does(*board, board->state(), "it has made no call yet");
  return {rank, fmt::format("rank {} does not answer, as if its process were stopped: {}", rank.value, doing)};
}

Culprit has_not_called(Rank rank, const Call& mine, const CallBoard& board) {
  const BoardState state = board.state();
  return {rank, fmt::format("rank {} {} not {} {}: {}", rank.value, state.heard() ? "has" : "may",
                            state.heard() ? "called" : "have called", describe(mine),
                            what_it_does(board, state, "it has made no call yet"))};
}

/// The rank whose process has owed an answer for the longest time among those of which `may_be` is true.
template <class MayBe>
Culprit longest_unanswered(const PeerView& peers, const MayBe& may_be) {
  Rank longest = kNoRank;
  Clock::duration time = peers.answer_time;
  for (Rank rank{0}; rank.value < peers.ranks; ++rank) {
    const Clock::duration unanswered = rank == peers.self ? Clock::duration{} : peers.unanswered(rank);
    if (unanswered <= time || !may_be(rank)) continue;
    longest = rank;
    time = unanswered;
  }
  return longest == kNoRank ? Culprit{} : does_not_answer(longest, peers.board(longest));
}

/// Where the chain of waits names nobody: who has not come and is not held up.
Culprit off_the_chain(const Call& mine, const PeerView& peers) {
  for (Rank rank{0}; rank.value < peers.ranks; ++rank) {
    const CallBoard* const theirs = rank == peers.self ? nullptr : peers.board(rank);
    if (theirs == nullptr) continue;
    const BoardState state = theirs->state();
    if (state.heard() && state.sequence < mine.sequence && awaited_by(rank, state, peers.ranks) == kNoRank)
      return has_not_called(rank, mine, *theirs);
  }
  return {};
}

/// The rank at the end of the chain of waits that begins at `awaited`. The rank only, without a text: one that is in
/// the call and waits for nobody. Neither: the chain is a circle.
Culprit end_of_chain(const Call& mine, Rank awaited, const PeerView& peers) {
  Rank rank = awaited;
  for (int hop = 0; hop < peers.ranks; ++hop) {
    const CallBoard* const theirs = peers.board(rank);
    if (theirs == nullptr) return {rank, fmt::format("rank {} has sent nothing", rank.value)};
    const BoardState state = theirs->state();
    const Rank next = awaited_by(rank, state, peers.ranks);
    if (state.sequence > mine.sequence || next == kNoRank) {
      if (state.sequence < mine.sequence) return has_not_called(rank, mine, *theirs);
      return {rank, {}};
    }
    const bool comes_later = state.state == CallState::kPointToPoint || holds_up(next, state.sequence, peers.board);
    if (state.sequence < mine.sequence && !comes_later) return has_not_called(rank, mine, *theirs);
    rank = next;
  }
  return {};
}

/// If nothing was heard of some ranks, the culprit may be one of them.
Culprit among_those_heard(Culprit culprit, const PeerView& peers) {
  std::vector<Rank> silent;
  for (Rank rank{0}; rank.value < peers.ranks; ++rank) {
    const CallBoard* const theirs = rank == peers.self ? nullptr : peers.board(rank);
    if (theirs == nullptr || theirs->state().heard()) continue;
    culprit.is_known = false;
    if (rank != culprit.rank) silent.push_back(rank);
  }
  constexpr std::size_t kNamed = 4;
  if (!silent.empty())
    culprit.what += "; nothing was heard of " +
                    (silent.size() <= kNamed ? text_of(silent) : fmt::format("{} more ranks", silent.size()));
  return culprit;
}

}  // namespace

Culprit find_culprit(const Call& mine, Rank awaited, const PeerView& peers) {
  Culprit silent = longest_unanswered(peers, [&](Rank rank) { return holds_up(rank, mine.sequence, peers.board); });
  if (silent.rank != kNoRank) return silent;
  Culprit end = awaited == kNoRank ? Culprit{} : end_of_chain(mine, awaited, peers);
  // Perhaps nothing was heard of one of many far ranks because it was not asked yet.
  const CallBoard* const last = end.rank == kNoRank ? nullptr : peers.board(end.rank);
  if (!end.what.empty() && (last == nullptr || last->state().heard())) return end;
  Culprit other = off_the_chain(mine, peers);
  if (other.rank != kNoRank) return other;
  if (!end.what.empty()) return among_those_heard(end, peers);
  if (end.rank != kNoRank) {
    end.what = fmt::format("rank {} is in the call but does not move", end.rank.value);
  } else if (awaited == kNoRank) {
    end.what = kUnknown;
  } else {
    end.rank = awaited;
    end.what = fmt::format("rank {} waits in a circle with others", awaited.value);
  }
  return among_those_heard(end, peers);
}

Culprit find_silent_peer(Rank awaited, const PeerView& peers) {
  if (awaited == kNoRank) return {kNoRank, kUnknown};
  if (awaited == peers.self) return {awaited, fmt::format("rank {} has sent nothing to itself", awaited.value)};
  Rank rank = awaited;
  for (int hop = 0; hop < peers.ranks && rank != peers.self; ++hop) {
    const CallBoard* const theirs = peers.board(rank);
    if (!peers.answers(rank)) return does_not_answer(rank, theirs);
    if (theirs == nullptr) return {rank, fmt::format("rank {} has not answered", rank.value)};
    const BoardState state = theirs->state();
    const Rank next = awaited_by(rank, state, peers.ranks);
    if (next == kNoRank)
      return {rank,
              fmt::format("rank {} has not answered: {}", rank.value,
                          what_it_does(*theirs, state, "it has made no collective call yet")),
              state.heard()};
    rank = next;
  }
  Culprit silent = longest_unanswered(peers, [](Rank) { return true; });
  if (silent.rank != kNoRank) return silent;
  return among_those_heard({awaited, fmt::format("rank {} waits in a circle with others", awaited.value)}, peers);
}

bool waits_in_circle(Rank awaited, const PeerView& peers) {
  Rank rank = awaited;
  for (int hop = 0; hop < peers.ranks; ++hop) {
    if (rank == peers.self) return true;
    const CallBoard* const theirs = rank == kNoRank || !peers.answers(rank) ? nullptr : peers.board(rank);
    if (theirs == nullptr) return false;
    rank = theirs->state().waiting_for.among(peers.ranks);
  }
  return true;
}

namespace {

enum class Unheard { kAbsent, kUnknown };

/// Those whose boards show no call of this number. `unheard`: what ranks are of which nothing was heard.
std::vector<Rank> absent_ranks(const Call& mine, const PeerView& peers, Unheard unheard) {
  std::vector<Rank> absent;
  for (Rank rank{0}; rank.value < peers.ranks; ++rank) {
    const CallBoard* const theirs = rank == peers.self ? nullptr : peers.board(rank);
    if (theirs == nullptr || (unheard == Unheard::kUnknown && !theirs->state().heard())) continue;
    if (theirs->state().sequence < mine.sequence) absent.push_back(rank);
  }
  return absent;
}

}  // namespace

Culprit find_absent(const Call& mine, Rank awaited, const PeerView& peers) {
  const std::vector<Rank> absent = absent_ranks(mine, peers, Unheard::kAbsent);
  return find_culprit(mine, absent.empty() ? awaited : absent.front(), peers);
}

std::string missing_ranks(const Call& mine, const PeerView& peers) {
  const std::vector<Rank> absent = absent_ranks(mine, peers, Unheard::kUnknown);
  return absent.empty() ? std::string() : text_of(absent);
}

std::string others_missing(const Call& mine, const PeerView& peers) {
  const std::vector<Rank> absent = absent_ranks(mine, peers, Unheard::kUnknown);
  return absent.size() < 2 ? std::string() : "; not there: " + text_of(absent);
}

}  // namespace tutti

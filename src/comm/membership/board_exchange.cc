#include "comm/membership/board_exchange.h"

#include <algorithm>

namespace tutti {
namespace {

/// So many calls go into an answer, and into the event of a late rank, because ranks that disagree are a few calls
/// apart at most. The board of a rank that finishes is sent whole.
constexpr std::uint64_t kAnswerDepth = MemberEventsMessage::kMaxCalls;
/// Honest ranks finish with the same operation, or a few; whoever makes numbers up gets one board a rank.
constexpr std::size_t kMostNoted = 16;

}  // namespace

void BoardExchange::set_own(Rank rank, const CallBoard* board) {
  const MutexLock lock(own_mutex_);
  if (board != nullptr) {
    own_[rank] = board;
  } else {
    own_.erase(rank);
  }
}

const CallBoard* BoardExchange::copy(Rank rank) const {
  static const CallBoard empty{};
  const Known* const known = known_.find(rank);
  const CallBoard* const board = known != nullptr ? known->copy.load(std::memory_order_acquire) : nullptr;
  return board != nullptr ? board : &empty;
}

std::uint64_t BoardExchange::finalize_of(Rank rank) const {
  const CallBoard* const board = copy(rank);
  const PostedCall newest = board->find(board->state().sequence);
  return newest.known && newest.call.collective == Collective::kFinalize ? newest.call.sequence : 0;
}

CallBoard* BoardExchange::writable(Rank rank) {
  if (const auto found = heard_.find(rank); found != heard_.end()) return found->second.get();
  Known& known = known_.make(rank);
  auto board = std::make_unique<CallBoard>();
  board->copy_state(copy(rank)->state());
  CallBoard* const made = heard_.emplace(rank, std::move(board)).first->second.get();
  known.copy.store(made, std::memory_order_release);
  return made;
}

bool BoardExchange::publish(Rank rank, const Send& send) {
  const MutexLock lock(own_mutex_);
  const auto found = own_.find(rank);
  if (found == own_.end()) return false;
  send(encode(read_board(rank, *found->second, CallBoard::kHistory)));
  return true;
}

bool BoardExchange::own_have_finished(std::uint64_t sequence) {
  const MutexLock lock(own_mutex_);
  return std::all_of(own_.begin(), own_.end(),
                     [sequence](const auto& own) { return own.second->state().has_finished(sequence); });
}

std::vector<Call> BoardExchange::finished_calls(Rank rank, std::uint64_t sequence) {
  const MutexLock lock(own_mutex_);
  const auto own = own_.find(rank);
  const CallBoard& board = own != own_.end() ? *own->second : *copy(rank);
  if (!board.state().has_finished(sequence) || !board.find(sequence).known) return {};
  return calls_up_to(board, sequence, kAnswerDepth);
}

std::uint64_t BoardExchange::own_sequence(Rank rank) {
  const MutexLock lock(own_mutex_);
  const auto found = own_.find(rank);
  return found == own_.end() ? 0 : found->second->state().sequence;
}

/// If no calls come with the state, the copy goes on showing those that it showed, because one of them may differ from
/// what other ranks called.
void BoardExchange::note(Rank rank, const BoardState& state, const std::vector<Call>& calls) {
  const CallBoard* const before = copy(rank);
  const BoardState known = before->state();
  const bool finished = state.state == CallState::kDone && !known.has_finished(state.sequence);
  if (known.sequence > state.sequence || (known.sequence == state.sequence && !finished)) return;
  const BoardMessage noted{rank, state, calls.empty() ? calls_up_to(*before, state.sequence, kAnswerDepth) : calls};
  if (const auto heard = heard_.find(rank); heard != heard_.end()) return write_board(noted, heard->second.get());
  const auto is_alike = [&](const NotedBoard& one) {
    return one.state.sequence == state.sequence && one.state.state == state.state && one.calls == noted.calls;
  };
  auto found = std::find_if(noted_.begin(), noted_.end(), is_alike);
  if (found == noted_.end()) {
    if (noted_.size() == kMostNoted) return write_board(noted, writable(rank));
    found = noted_.insert(noted_.end(), {state, noted.calls, std::make_unique<CallBoard>()});
    write_board(noted, found->board.get());
  }
  known_.make(rank).copy.store(found->board.get(), std::memory_order_release);
}

void BoardExchange::answer(const std::vector<Rank>& ranks, const Send& send) {
  const MutexLock lock(own_mutex_);
  for (const Rank rank : ranks) {
    const auto own = own_.find(rank);
    send(encode(own == own_.end() ? BoardMessage{rank, {}, {}} : read_board(rank, *own->second, kAnswerDepth)));
  }
}

void BoardExchange::copy_own() {
  const MutexLock lock(own_mutex_);
  for (const auto& [rank, board] : own_) write_board(read_board(rank, *board, CallBoard::kHistory), writable(rank));
}

Clock::duration BoardExchange::unanswered(Rank rank, Clock::time_point now) const {
  const Known* const known = known_.find(rank);
  const Clock::rep since = known != nullptr ? known->owing_since.load(std::memory_order_relaxed) : 0;
  return since == 0 ? Clock::duration{} : now.time_since_epoch() - Clock::duration(since);
}

bool BoardExchange::may_ask(const std::vector<Rank>& ranks, Clock::time_point now) {
  bool may = false;
  for (const Rank rank : ranks) {
    Clock::rep nothing = 0;
    may = known_.make(rank).owing_since.compare_exchange_strong(nothing, now.time_since_epoch().count(),
                                                                std::memory_order_relaxed) ||
          may;
  }
  return may;
}

void BoardExchange::owes_nothing(const std::vector<Rank>& ranks) {
  for (const Rank rank : ranks)
    if (Known* const known = known_.find(rank)) known->owing_since.store(0, std::memory_order_relaxed);
}

Status BoardExchange::take(const std::vector<Rank>& ranks, ByteView payload) {
  BoardMessage message;
  TUTTI_TRY(decode(payload, &message));
  const bool known = std::find(ranks.begin(), ranks.end(), message.rank) != ranks.end() &&
                     message.state.waiting_for.number() < known_.ranks();
  if (!known) return fail(Code::kRemoteError, "a board of somebody else");
  owes_nothing(ranks);
  if (message.state.heard()) write_board(message, writable(message.rank));
  return {};
}

}  // namespace tutti

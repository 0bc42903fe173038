#include "comm/membership/board_exchange.h"

#include <algorithm>
#include <chrono>

namespace tutti {
namespace {

/// So many calls go into an answer, because ranks that disagree are a few calls apart at most. The board of a rank that
/// finishes is sent whole.
constexpr std::uint64_t kAnswerDepth = 8;
/// A service thread that lives answers at once; on a busy machine it may have to wait for its turn.
constexpr std::chrono::milliseconds kSilence{500};

}  // namespace

BoardExchange::~BoardExchange() {
  for (const auto& copy : copies_) delete copy.load(std::memory_order_relaxed);  // nobody reads any more
}

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
  const CallBoard* const known = copies_[static_cast<std::size_t>(rank.value)].load(std::memory_order_acquire);
  return known != nullptr ? known : &empty;
}

CallBoard* BoardExchange::writable(Rank rank) {
  std::atomic<CallBoard*>& copy = copies_[static_cast<std::size_t>(rank.value)];
  if (copy.load(std::memory_order_relaxed) == nullptr) copy.store(new CallBoard(), std::memory_order_release);
  return copy.load(std::memory_order_relaxed);
}

bool BoardExchange::publish(Rank rank, const Send& send) {
  const MutexLock lock(own_mutex_);
  const auto found = own_.find(rank);
  if (found == own_.end()) return false;
  send(encode(read_board(rank, *found->second, CallBoard::kHistory)));
  return true;
}

std::uint64_t BoardExchange::own_sequence(Rank rank) {
  const MutexLock lock(own_mutex_);
  const auto found = own_.find(rank);
  return found == own_.end() ? 0 : found->second->state().sequence;
}

void BoardExchange::note_sequence(Rank rank, std::uint64_t sequence) {
  if (copy(rank)->state().sequence < sequence)
    writable(rank)->copy_state(BoardState{sequence, CallState::kRunning, kNoRank});
}

void BoardExchange::answer(const Send& send) {
  const MutexLock lock(own_mutex_);
  for (const auto& [rank, board] : own_) send(encode(read_board(rank, *board, kAnswerDepth)));
}

void BoardExchange::copy_own() {
  const MutexLock lock(own_mutex_);
  for (const auto& [rank, board] : own_) write_board(read_board(rank, *board, CallBoard::kHistory), writable(rank));
}

bool BoardExchange::may_ask(const ProcessId& process, const std::vector<Rank>& ranks, Clock::time_point now) {
  const auto [asked, first] = asked_.emplace(process, now);
  if (first) return true;
  if (now - asked->second > kSilence)
    for (const Rank rank : ranks) writable(rank)->post_awaited(kNoRank);
  return false;
}

Status BoardExchange::take(const ProcessId& process, const std::vector<Rank>& ranks, ByteView payload) {
  BoardMessage message;
  TUTTI_TRY(decode(payload, &message));
  const bool known = std::find(ranks.begin(), ranks.end(), message.rank) != ranks.end() &&
                     message.state.waiting_for.number() < static_cast<std::int32_t>(copies_.size());
  if (!known) return fail(Code::kRemoteError, "a board of somebody else");
  asked_.erase(process);
  write_board(message, writable(message.rank));
  return {};
}

}  // namespace tutti

// The communicator's judgement of a wait: causes, disagreement, deaths, the clock. In this order, so that the first
// cause is what is reported, never its consequences.
#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "comm/communicator.h"
#include "comm/progress_state.h"
#include "comm/stream_wait.h"
#include "core/log.h"
#include "core/no_cancel.h"

namespace tutti {

namespace {
/// A wait for ranks of other hosts is long from here on: their boards are asked for, at first as often, later less.
constexpr std::chrono::milliseconds kFarTimeout{50};
constexpr std::chrono::milliseconds kFarPause{1000};
/// What a dead process of another host sent is still sent by its system, also again when a packet was lost (at first
/// after 200 ms, then 400): the end of the connection comes after it. A dead system ends no connection.
constexpr std::chrono::milliseconds kLastWords{2000};
/// Between two looks, of a thread that waits for operations that the progress thread runs.
constexpr std::chrono::milliseconds kTurnSlice{50};
}  // namespace

BoardReader Communicator::boards() const {
  return [this](Rank peer) {
    const CallBoard* const near = static_cast<const Executor&>(*executor_).board(peer);
    return near != nullptr || peer == rank_ ? near : joined_.membership->board(peer);
  };
}

// The copies that answers make are read at the next look.
void Communicator::ask_far_ranks() {
  if (far_.empty() || !waiting_) return;
  const Clock::time_point now = Clock::now();
  const Clock::duration waited = now - waiting_since_;
  const Clock::duration pause = std::clamp<Clock::duration>(waited / 4, kFarTimeout, kFarPause);
  if (waited < kFarTimeout || now - asked_at_ < pause) return;
  asked_at_ = now;
  joined_.membership->ask_boards(far_);
}

Status Communicator::check(Rank missing, std::uint64_t progress) {
  const NoCancel no_cancel;
  alarm_.store(0, std::memory_order_relaxed);  // what raised it is looked at below
  if (failed()) {
    alarm_.store(1, std::memory_order_release);
    return failure();
  }
  TUTTI_TRY(adopt_cause());
  ask_far_ranks();
  const bool collective = call_.collective != Collective::kSendRecv;
  TUTTI_TRY(collective ? look_for_disagreement() : look_for_transfer_faults());
  if (Status fault = active_->fault(); !fault.ok()) return fail_for_good(std::move(fault), kNoRank);
  if (active_->works()) {
    waiting_ = false;
    suspect_ = kNoRank;
    return {};
  }
  if (collective) TUTTI_TRY(look_for_finished(missing, progress));
  TUTTI_TRY(look_for_deaths(missing, progress));
  return look_at_clock(missing, progress);
}

// A peer that has finished this operation has sent all that it sends. If what this rank waits for is not there at the
// second look, it is something of another size, which this rank does not look for. Between hosts it may still be on its
// way for as long as a lost connection is tried again.
Status Communicator::look_for_finished(Rank missing, std::uint64_t progress) {
  if (runs_on_device()) return {};  // a call on a CUDA stream is finished, to its host, once it is there
  if (missing == kNoRank || missing == rank_ || !finished_by(missing, call_.sequence)) return {};
  if (finished_peer_ != missing || finished_progress_ != progress || finished_sequence_ != call_.sequence) {
    finished_peer_ = missing;
    finished_progress_ = progress;
    finished_sequence_ = call_.sequence;
    finished_since_ = Clock::now();
    return {};
  }
  const std::chrono::duration<double> seen = Clock::now() - finished_since_;
  if (is_far(missing) && seen.count() < 1 + settings_.reconnect_seconds) return {};
  return call_.collective == Collective::kAllToAllV ? odd_message(missing) : Status{};
}

Status Communicator::look_for_disagreement() {
  const Disagreement other = find_disagreement(call_, rank_, ranks_, boards());
  if (other.rank != kNoRank) return fail_for_good(Status(Code::kMismatch, describe(other, call_, rank_)), other.rank);
  return active_->mismatched() == kNoRank ? Status{} : odd_message(active_->mismatched());
}

Status Communicator::look_for_transfer_faults() {
  const std::string& fault = executor_->transfer_fault();
  return fault.empty() ? Status{} : fail_for_good(Status(Code::kMismatch, fault), kNoRank);
}

std::string Communicator::what_runs() const {
  if (call_.collective != Collective::kSendRecv) return describe(call_);
  const Transfer* const open = executor_->open_transfer();
  return open != nullptr ? describe(*open) : "sends that nobody has taken yet";
}

Culprit Communicator::culprit_of_wait(Rank missing) const {
  if (call_.collective == Collective::kSendRecv) return find_silent_peer(rank_, missing, ranks_, boards());
  // A kernel names any one of those that it waits for, and may have named it long ago.
  if (runs_on_device()) return find_absent(call_, rank_, missing, ranks_, boards());
  if (missing == kNoRank && runs_staged()) {
    Culprit absent = find_absent(call_, rank_, missing, ranks_, boards());
    if (absent.rank != kNoRank) return absent;
    return {rank_, fmt::format("the device of rank {} has not come to its part of it", rank_.value)};
  }
  return find_culprit(call_, missing, ranks_, boards());
}

Culprit Communicator::late_in_last_call(const std::vector<int>& ranks) const {
  for (const int number : ranks) {
    const Rank rank{number};
    const bool known = rank != rank_ && (!is_far(rank) || boards()(rank)->state().heard());
    if (known && !finished_by(rank, call_.sequence)) return culprit_of_wait(rank);
  }
  return {};
}

void Communicator::ask_boards(const std::vector<int>& ranks) {
  std::vector<Rank> asked;
  for (const int rank : ranks)
    if (Rank{rank} != rank_ && is_far(Rank{rank})) asked.emplace_back(rank);
  if (!asked.empty()) joined_.membership->ask_boards(asked);
}

// "; not there: ranks 1 and 2", where the culprit is not the only one; "" else.
std::string Communicator::others_missing(const Call& call) const {
  const std::string absent = missing_ranks(call, rank_, ranks_, boards());
  return absent.starts_with("ranks") ? "; not there: " + absent : std::string();
}

// A message stands where another was expected. The calls that do not fit may be older than the one that met it: an
// empty call sends nothing, so the next one finds the peer's message.
Status Communicator::odd_message(Rank from) {
  Call mine = call_;
  const Disagreement other = find_first_disagreement(&mine, from, board_, boards());
  if (other.rank != kNoRank) return fail_for_good(Status(Code::kMismatch, describe(other, mine, rank_)), from);
  if (call_.collective == Collective::kAllToAllV)
    return fail_for_good(fail(Code::kMismatch, "the sendcounts of rank {} and the recvcounts of rank {} differ in {}",
                              from.value, rank_.value, describe(call_)),
                         from);
  return fail_for_good(fail(Code::kMismatch, "rank {} sent a message of another call where rank {} called {}",
                            from.value, rank_.value, describe(call_)),
                       from);
}

bool Communicator::finished_by(Rank peer, std::uint64_t sequence) const {
  const bool far = is_far(peer);
  if (far && joined_.membership->last_sequence(peer) >= sequence) return true;
  const BoardState state = boards()(peer)->state();
  return state.sequence > sequence || (state.sequence == sequence && state.state != CallState::kRunning);
}

// Whether this rank waits in vain now that `peer` is gone. Who receives from any rank may have waited for the dead one.
// What a far rank had done is not known for sure; who waits for it directly does know, and tells all others
// (docs/design/failure.md).
bool Communicator::concerns(Rank peer, Liveness liveness, Rank missing) const {
  if (call_.collective != Collective::kSendRecv) {
    if (finished_by(peer, call_.sequence)) return false;
    return !is_far(peer) || missing == peer || waits_in_circle(rank_, missing, ranks_, boards());
  }
  const Transfer* const open = executor_->open_transfer();
  if (open == nullptr) return missing == peer;  // all is said and done, but the peer has not taken it
  if (!executor_->exchanges_with(peer)) return false;
  if (liveness == Liveness::kDead || open->peer != kNoRank) return true;
  for (Rank other{0}; other.value < ranks_; ++other)
    if (other != rank_ && joined_.membership->liveness(other) == Liveness::kAlive) return false;
  return true;
}

// A rank that is gone without having finished this operation will never do so: someone waits for it in vain. The first
// time it is only a suspicion, and the links are looked at once more: what the dead delivered is used first. From
// another host it may still be on its way.
Status Communicator::look_for_deaths(Rank missing, std::uint64_t progress) {
  for (Rank peer{0}; peer.value < ranks_; ++peer) {
    const Liveness liveness = joined_.membership->liveness(peer);
    if (liveness == Liveness::kAlive || peer == rank_ || !concerns(peer, liveness, missing)) continue;
    if (suspect_ != peer || suspect_progress_ != progress) {
      suspect_ = peer;
      suspect_progress_ = progress;
      suspect_since_ = Clock::now();
      alarm_.store(1, std::memory_order_release);
      return {};
    }
    const Clock::duration suspected = Clock::now() - suspect_since_;
    if (is_far(peer) && (suspected < kFarTimeout || (suspected < kLastWords && executor_->hears(peer)))) {
      alarm_.store(1, std::memory_order_release);
      return {};
    }
    return gone(peer, liveness);
  }
  return {};
}

Status Communicator::gone(Rank peer, Liveness liveness) {
  TUTTI_TRY(adopt_cause());  // whoever left after giving a cause gave it before it left
  const std::string who = joined_.membership->describe(peer);
  if (liveness == Liveness::kDead)
    return fail_for_good(fail(Code::kRemoteError, "rank {} ({}) died during {}", peer.value, who, what_runs()), peer);
  // A process that ended without Destroy says goodbye without a number.
  const std::uint64_t last = joined_.membership->last_sequence(peer);
  const std::string when = last != 0 ? fmt::format(" after operation {}", last) : std::string();
  return fail_for_good(fail(Code::kRemoteError, "rank {} ({}) left{}, but rank {} called {}", peer.value, who, when,
                            rank_.value, what_runs()),
                       peer);
}

Status Communicator::look_at_clock(Rank missing, std::uint64_t progress) {
  const Clock::time_point now = Clock::now();
  if (!waiting_ || waited_rank_ != missing || waited_progress_ != progress) {
    waiting_ = true;
    warned_ = false;
    waited_rank_ = missing;
    waited_progress_ = progress;
    waiting_since_ = now;
    return {};
  }
  const double waited = std::chrono::duration<double>(now - waiting_since_).count();
  const double timeout = operation_timeout_;
  if (!warned_ && waited >= (timeout > 0 ? std::min(30.0, timeout / 2) : 30.0)) warn_of_missing(missing, waited);
  if (timeout <= 0 || waited < timeout) return {};
  const Culprit culprit = culprit_of_wait(missing);
  const std::string others = call_.collective == Collective::kSendRecv ? std::string() : others_missing(call_);
  return fail_for_good(fail(Code::kTimeout, "rank {} waited {:.1f} s in {}: {}{}", rank_.value, waited, what_runs(),
                            culprit.what, others),
                       culprit.rank);
}

void Communicator::warn_of_missing(Rank missing, double waited) {
  warned_ = true;
  // Who waits for ever for anybody's message is a server between two requests: nobody is late.
  const Transfer* const open = call_.collective == Collective::kSendRecv ? executor_->open_transfer() : nullptr;
  if (operation_timeout_ <= 0 && open != nullptr && open->kind == Transfer::Kind::kReceive && open->peer == kNoRank)
    return;
  const Culprit culprit = culprit_of_wait(missing);
  if (call_.collective == Collective::kSendRecv)
    return log(LogLevel::kWarn, log_source(), "{} has waited {:.1f} s: {}", what_runs(), waited, culprit.what);
  const std::string absent = missing_ranks(call_, rank_, ranks_, boards());
  log(LogLevel::kWarn, log_source(), "{} has waited {:.1f} s; not there: {}; {}", describe(call_), waited,
      absent.empty() ? "nobody, all have called it" : absent, culprit.what);
}

Status Communicator::wait_until_quiet() {
  if (turns_.is_empty()) return {};
  TUTTI_TRY(ProgressState::refuse_wait());
  StreamWait wait(*this);
  while (!turns_.wait_for_end(kTurnSlice)) TUTTI_TRY(wait.check());
  return {};
}

// Finalize is a collective that moves nothing: it waits until every peer has finished what this rank took part in, so
// that an error of theirs is known here. Peers' boards tell; ranks that left in order have finished or are reported.
Status Communicator::finalize() {
  if (const Status status = wait_until_quiet(); !status.ok() && !failed()) return status;
  if (finalized_) return fail(Code::kInvalidUsage, "rank {} has finalized this communicator before", rank_.value);
  finalized_ = true;
  if (failed()) return failure();
  TUTTI_TRY(wait_for_kernels());
  const std::uint64_t last = turns_.number();
  repeat_.possible = false;
  call_ = Call{};
  call_.sequence = last + 1;
  call_.collective = Collective::kFinalize;
  board_.begin(call_);
  joined_.membership->publish_board();
  operation_timeout_ = timeout_seconds_.load(std::memory_order_relaxed);
  Status status = last == 0 ? adopt_cause() : wait_for_peers_to_finish();
  if (status.ok()) status = wait_for_delivery();
  board_.end(call_.sequence);
  joined_.membership->say_goodbye(last);
  return status;
}

// A call on a CUDA stream is finished, to its host, once it is there. Kernels of other processes use this rank's memory
// until the peer has come to Finalize, too.
bool Communicator::is_done_with(Rank peer, std::uint64_t last) const {
  const bool lives = joined_.membership->liveness(peer) == Liveness::kAlive;
  const bool through = lives && device_ != nullptr && device_->spans_processes();
  return through ? boards()(peer)->state().sequence > last : finished_by(peer, last);
}

Status Communicator::wait_for_peers_to_finish() {
  const std::uint64_t last = call_.sequence - 1;
  Ladder ladder(LadderPolicy{});
  waiting_ = false;
  for (Rank peer{0}; peer.value < ranks_;) {
    if (peer == rank_ || is_done_with(peer, last)) {
      ++peer;
      continue;
    }
    if (alarmed()) TUTTI_TRY(adopt_cause());
    if (joined_.membership->liveness(peer) != Liveness::kAlive && !finished_by(peer, last)) {
      TUTTI_TRY(adopt_cause());  // whoever left after giving a cause gave it before it left
      return fail_for_good(fail(Code::kRemoteError, "rank {} ({}) left without finishing operation {}", peer.value,
                                joined_.membership->describe(peer), last),
                           peer);
    }
    if (ladder.climb() != Ladder::Rung::kSleep) continue;
    TUTTI_TRY(adopt_cause());
    TUTTI_TRY(look_at_clock(peer, last));
    ask_far_ranks();
    executor_->serve();  // a peer may have lost a connection, and need again what it carried
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  TUTTI_TRY(adopt_cause());
  return look_for_past_disagreement(last);
}

// What was sent may still be in this host's memory, and a peer that receives it later finds this rank gone.
Status Communicator::wait_for_delivery() {
  Ladder ladder(LadderPolicy{});
  waiting_ = false;
  for (Rank late = kNoRank; !executor_->delivered(&late);) {
    if (alarmed()) TUTTI_TRY(adopt_cause());
    if (ladder.climb() != Ladder::Rung::kSleep) continue;
    TUTTI_TRY(adopt_cause());
    TUTTI_TRY(look_at_clock(late, executor_->progress()));
    ask_far_ranks();
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  return {};
}

// Calls that moved nothing, or only sent on every rank, met no message that could have told: the boards do.
Status Communicator::look_for_past_disagreement(std::uint64_t last) {
  for (Rank peer{0}; peer.value < ranks_; ++peer) {
    if (peer == rank_) continue;
    Call mine;
    mine.sequence = last;
    const Disagreement other = find_first_disagreement(&mine, peer, board_, boards());
    if (other.rank != kNoRank) return fail_for_good(Status(Code::kMismatch, describe(other, mine, rank_)), peer);
  }
  return {};
}

}  // namespace tutti

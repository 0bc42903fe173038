#include "comm/failure/wait_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/no_cancel.h"

namespace tutti {

namespace {
/// After this time a wait for far ranks counts as long. Then their boards are asked for, with pauses that grow from the
/// first time to the second one, and are longer where many ranks share a core (Peers::question_pause).
constexpr std::chrono::milliseconds kFarTimeout{50};
constexpr std::chrono::milliseconds kFarPause{1000};
/// If there are more far ranks than this, not all are asked: that would be a message for each pair of ranks, again and
/// again, at a time when the ranks may be slow because they share few cores. At first a question goes to those that
/// this process is connected to, and comes later, by as many times as there are more ranks. When the wait is as long as
/// kSearchTime, or longer where many ranks share a core, it goes to a few, and connections are made for it. Shortly
/// before a verdict it goes to both.
constexpr int kAllAsked = 32;
constexpr std::chrono::seconds kSearchTime{2};
/// These few are so many ranks in turn, and so many at each end of the chain of waiters.
constexpr int kAskedInTurn = 8;
constexpr std::size_t kAskedOfChain = 4;
/// For so long before a verdict, or for half of the wait if it is short, processes of this host are asked, too. Their
/// boards can be read without, but not whether they still run. It is longer where answers take longer.
constexpr double kNoticeSeconds = 3;
/// Whatever the pause, these are asked at the begin of that time and after this share of it, and once more after as
/// long if the verdict is put off.
constexpr double kLastPause = 0.625;
constexpr double kLastQuestions = 3;
/// A process that owes an answer for longer than this share of the timeout counts as stopped. The questions come
/// earlier before the verdict. On a host with many more ranks than cores an answer takes a second.
constexpr double kAnswerShare = 1.0 / 6;
constexpr double kLongestAnswerSeconds = 2;
/// A rank that has not heard of all that may be the culprit waits for so much longer than its timeout, or a quarter of
/// that if it is less.
constexpr double kGraceSeconds = 3;
/// Between two questions to a rank whose message does not fit.
constexpr std::chrono::milliseconds kOddPause{5};
/// It is asked for so long, or for half of the timeout if that is short. Nothing but the words of the error depends on
/// its answer, which takes a second on a host with many more ranks than cores.
constexpr double kOddSeconds = 3;
/// What a dead process of another host sent is still sent by its system, also again when a packet was lost (at first
/// after 200 ms, then 400): the end of the connection comes after it. A host that could not be reached has had as much
/// time.
constexpr double kLastWords = 2;  // seconds
}  // namespace

// The copies that answers make are read at the next look.
void WaitJudge::ask_peers(Rank awaited) {
  if (!waiting_) return;
  const Clock::time_point now = Clock::now();
  const Clock::duration waited = now - waiting_since_;
  const Clock::duration last = asked_at_ - waiting_since_;
  const bool verdict_near = last_questions_due(waited) > 0;
  const int far = peers_.far_count();
  const bool many = far > kAllAsked;
  const Clock::duration search_time = std::max<Clock::duration>(kSearchTime, peers_.search_pause());
  const bool searches = many && (verdict_near || waited >= search_time);
  const Clock::duration later = std::min<Clock::duration>(kFarTimeout * std::max(far / kAllAsked, 1), kFarPause);
  const Clock::duration first = std::max<Clock::duration>(verdict_near ? kFarTimeout : later,
                                                          searches ? peers_.search_pause() : peers_.question_pause());
  const Clock::duration pause =
      std::clamp<Clock::duration>(waited / 4, first, std::max<Clock::duration>(first, kFarPause));
  // These do not wait for the pause to end, because it may be longer than the time that is left.
  const bool is_due =
      last_questions_due(waited) > last_questions_due(last) || (many && waited >= search_time && last < search_time);
  if (!is_due && (waited < first || now - asked_at_ < pause)) return;
  asked_at_ = now;
  if (far > 0 && (!searches || verdict_near))
    peers_.membership().ask_boards(peers_.far(), many ? 0 : peers_.most_dials());
  if (searches) peers_.membership().ask_boards(next_to_ask(awaited), peers_.most_dials());
  if (verdict_near) peers_.membership().ask_boards(unfinished_peers(), 0);
}

/// The ranks that this one waits for, that these wait for, and so on as far as is known, are a chain. Its first and its
/// last ranks are asked, so each question gets a rank further, and others in turn.
std::vector<Rank> WaitJudge::next_to_ask(Rank awaited) {
  std::vector<Rank> chosen;
  const auto choose = [&](Rank rank) {
    if (rank != rank_ && peers_.is_far(rank)) chosen.push_back(rank);
  };
  const BoardReader boards = peers_.boards();
  std::vector<Rank> chain;
  for (Rank next = awaited; next != kNoRank && next != rank_ && static_cast<int>(chain.size()) < ranks_;) {
    chain.push_back(next);
    next = boards(next)->state().waiting_for.among(ranks_);
  }
  for (std::size_t hop = 0; hop < chain.size(); ++hop)
    if (hop < kAskedOfChain || hop + kAskedOfChain >= chain.size()) choose(chain[hop]);
  for (int i = 0; i < kAskedInTurn; ++i, ++asked_) choose(Rank{(rank_.value + 1 + asked_ % (ranks_ - 1)) % ranks_});
  return chosen;
}

/// Looks follow each other at most 0.2 s apart. After a long pause this process was stopped itself, and may not have
/// read the answers yet.
void WaitJudge::note_look() {
  const Clock::time_point now = Clock::now();
  if (now - looked_at_ > kAnswerTime) awake_since_ = now;
  looked_at_ = now;
}

PeerView WaitJudge::view_since_awake() const {
  PeerView view = peers_.view();
  view.unanswered = [this, now = Clock::now()](Rank peer) {
    return std::min(peers_.membership().unanswered(peer), now - awake_since_);
  };
  return view;
}

/// Where many ranks share a core, answers may be as late as questions.
PeerView WaitJudge::view() const {
  const double timeout = running_.timeout;
  const double turn = std::chrono::duration<double>(peers_.question_pause()).count();
  double seconds = std::max(kLongestAnswerSeconds, turn);
  if (timeout > 0)
    seconds = std::max(std::min(timeout * kAnswerShare, kLongestAnswerSeconds), std::min(turn, timeout / 4));
  PeerView view = view_since_awake();
  const auto answer_time = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  view.answer_time = std::max<Clock::duration>(answer_time, kAnswerTime);
  return view;
}

int WaitJudge::last_questions_due(Clock::duration waited) const {
  if (warned_ && running_.timeout <= 0) return 0;
  const double verdict = warned_ ? running_.timeout : warning_time();
  const double answers = 1 + std::chrono::duration<double>(peers_.question_pause()).count();
  const double notice = std::min(std::max(kNoticeSeconds, answers), verdict / 2);
  const double passed = std::chrono::duration<double>(waited).count() - (verdict - notice);
  return passed < 0 ? 0 : static_cast<int>(std::min(1 + passed / (kLastPause * notice), kLastQuestions));
}

double WaitJudge::warning_time() const { return running_.timeout > 0 ? std::min(30.0, running_.timeout / 2) : 30.0; }

std::vector<Rank> WaitJudge::unfinished_peers() const {
  std::vector<Rank> unfinished;
  for (Rank peer{0}; peer.value < ranks_; ++peer)
    if (peer != rank_ && (running_.is_point_to_point() || !peers_.has_finished(peer, running_.call.sequence)))
      unfinished.push_back(peer);
  return unfinished;
}

Status WaitJudge::check(Rank awaited, std::uint64_t progress) {
  const NoCancel no_cancel;
  note_look();
  alarm_.store(0, std::memory_order_relaxed);  // what raised it is looked at below
  if (failures_.failed()) {
    alarm_.store(1, std::memory_order_release);
    return failures_.status();
  }
  if (is_cause_new(progress)) return {};
  TUTTI_TRY(failures_.adopt_cause());
  ask_peers(awaited);
  const bool collective = !running_.is_point_to_point();
  TUTTI_TRY(collective ? look_for_disagreement() : look_for_transfer_faults());
  if (Status fault = running_.executor->fault(); !fault.ok()) return failures_.fail_for_good(std::move(fault), kNoRank);
  if (running_.executor->waits_for_device()) {
    waiting_ = false;
    suspect_ = kNoRank;
    return {};
  }
  if (collective) TUTTI_TRY(look_for_unequal_counts(awaited, progress));
  TUTTI_TRY(look_for_deaths(awaited, progress));
  return look_at_clock(awaited, progress);
}

/// A cause can overtake the messages that were sent before it. The links are looked at once more, so that a call whose
/// messages have all come ends well.
bool WaitJudge::is_cause_new(std::uint64_t progress) {
  if (progress_at_cause_ == progress || peers_.membership().cause().code == Code::kOk) return false;
  progress_at_cause_ = progress;
  alarm_.store(1, std::memory_order_release);
  return true;
}

// This is for all-to-all-v only, where the counts of a pair are known to these two ranks alone. A peer that has
// finished this operation has sent all that it sends. If what this rank waits for is not there at the second look, the
// peer sent something of another size, which this rank does not look for. Between hosts it may still be on its way for
// as long as a lost connection is tried again.
Status WaitJudge::look_for_unequal_counts(Rank awaited, std::uint64_t progress) {
  if (running_.call.collective != Collective::kAllToAllV) return {};
  // On the boards, a call on a CUDA stream has finished as soon as it is enqueued.
  if (running_.way == RunningCall::Way::kDevice) return {};
  if (awaited == kNoRank || awaited == rank_ || !peers_.has_finished(awaited, running_.call.sequence)) return {};
  if (finished_peer_ != awaited || finished_progress_ != progress || finished_sequence_ != running_.call.sequence) {
    finished_peer_ = awaited;
    finished_progress_ = progress;
    finished_sequence_ = running_.call.sequence;
    finished_since_ = Clock::now();
    return {};
  }
  const std::chrono::duration<double> seen = Clock::now() - finished_since_;
  if (peers_.is_far(awaited) && seen.count() < 1 + reconnect_seconds_) return {};
  return odd_message(awaited);
}

Status WaitJudge::look_for_disagreement() {
  const Disagreement other = find_disagreement(running_.call, view());
  if (other.rank != kNoRank)
    return failures_.fail_for_good(Status(Code::kMismatch, describe(other, running_.call, rank_)), other.rank);
  const Rank odd = running_.executor->mismatched();
  return odd == kNoRank || is_asking_about(odd) ? Status{} : odd_message(odd);
}

/// A far rank's message comes before what its board says of the call. So it is asked, for a while.
bool WaitJudge::is_asking_about(Rank odd) {
  Call mine = running_.call;
  if (!peers_.is_far(odd) || find_first_disagreement(&mine, odd, links_.board(), peers_.boards()).rank != kNoRank)
    return false;
  const Clock::time_point now = Clock::now();
  if (odd_ != odd) {
    odd_ = odd;
    odd_since_ = now;
  } else if (now - asked_at_ < kOddPause) {
    return waits_for_odd(now);
  }
  asked_at_ = now;
  peers_.membership().ask_boards({odd}, peers_.most_dials());
  return waits_for_odd(now);
}

bool WaitJudge::waits_for_odd(Clock::time_point now) const {
  return std::chrono::duration<double>(now - odd_since_).count() < std::min(kOddSeconds, warning_time());
}

Status WaitJudge::look_for_transfer_faults() {
  const std::string& fault = transfers_.fault();
  return fault.empty() ? Status{} : failures_.fail_for_good(Status(Code::kMismatch, fault), kNoRank);
}

std::string WaitJudge::what_runs() const {
  if (!running_.is_point_to_point()) return describe(running_.call);
  const Transfer* const open = transfers_.open_transfer();
  return open != nullptr ? describe(*open) : "sends that nobody has taken yet";
}

Culprit WaitJudge::culprit_of_wait(Rank awaited) const {
  if (running_.is_point_to_point()) return find_silent_peer(awaited, view());
  // A kernel names any one of those that it waits for, and may have named it long ago.
  if (running_.way == RunningCall::Way::kDevice) return find_absent(running_.call, awaited, view());
  if (awaited == kNoRank && running_.way == RunningCall::Way::kStaged) {
    Culprit absent = find_absent(running_.call, awaited, view());
    if (absent.rank != kNoRank) return absent;
    return {rank_, fmt::format("the device of rank {} has not come to its part of it", rank_.value)};
  }
  return find_culprit(running_.call, awaited, view());
}

Culprit WaitJudge::late_in_last_call(const std::vector<int>& ranks) const {
  for (const int number : ranks) {
    const Rank rank{number};
    const bool known = rank != rank_ && (!peers_.is_far(rank) || peers_.boards()(rank)->state().heard());
    if (known && !peers_.has_finished(rank, running_.call.sequence)) return culprit_of_wait(rank);
  }
  return {};
}

// A message was found where another was expected. The calls that disagree may be older than the running one, because an
// empty call sends and receives nothing, so a later one finds the peer's message.
Status WaitJudge::odd_message(Rank from) {
  Call mine = running_.call;
  const Disagreement other = find_first_disagreement(&mine, from, links_.board(), peers_.boards());
  if (other.rank != kNoRank)
    return failures_.fail_for_good(Status(Code::kMismatch, describe(other, mine, rank_)), from);
  if (running_.call.collective == Collective::kAllToAllV)
    return failures_.fail_for_good(
        fail(Code::kMismatch, "the sendcounts of rank {} and the recvcounts of rank {} differ in {}", from.value,
             rank_.value, describe(running_.call)),
        from);
  return failures_.fail_for_good(fail(Code::kMismatch, "rank {} sent a message of another call where rank {} called {}",
                                      from.value, rank_.value, describe(running_.call)),
                                 from);
}

// Whether this rank may wait for ever now that `peer` is gone. A rank that receives from any rank may have waited for
// the dead one. What a far rank had done is not known for sure, and if its last message was lost with a connection,
// nobody sends it again; a rank that waits for it directly does know, and posts the cause for all others
// (docs/design/failure.md).
bool WaitJudge::concerns(Rank peer, Liveness liveness, Rank awaited) const {
  if (!running_.is_point_to_point()) {
    if (has_finished(peer)) return peers_.is_far(peer) && awaited == peer;
    return !peers_.is_far(peer) || awaited == peer || waits_in_circle(awaited, view());
  }
  const Transfer* const open = transfers_.open_transfer();
  if (open == nullptr) return awaited == peer;  // all are done on this side, but the peer has not taken what was sent
  if (!transfers_.is_open_with(peer)) return false;
  if (liveness == Liveness::kDead || open->peer != kNoRank) return true;
  for (Rank other{0}; other.value < ranks_; ++other)
    if (other != rank_ && peers_.liveness(other) == Liveness::kAlive) return false;
  return true;
}

// A rank that is gone will send nothing more, so someone would wait for ever. The first time it is only a suspicion,
// and the links are looked at once more, so that what the dead rank delivered is used first. What it sent from another
// host may still be on its way; if it has finished the operation, that is likely.
Status WaitJudge::look_for_deaths(Rank awaited, std::uint64_t progress) {
  for (Rank peer{0}; peer.value < ranks_; ++peer) {
    const Liveness liveness = peers_.liveness(peer);
    if (liveness == Liveness::kAlive || peer == rank_ || !concerns(peer, liveness, awaited)) continue;
    if (suspect_ != peer || suspect_progress_ != progress) {
      suspect_ = peer;
      suspect_progress_ = progress;
      suspect_since_ = Clock::now();
      alarm_.store(1, std::memory_order_release);
      return {};
    }
    const std::chrono::duration<double> suspected = Clock::now() - suspect_since_;
    const double last_words = has_finished(peer) ? std::max(kLastWords, reconnect_seconds_) : kLastWords;
    const bool may_hear =
        suspected.count() < last_words && !peers_.membership().was_unreachable(peer) && links_.hears(peer);
    if (peers_.is_far(peer) && (suspected < kFarTimeout || may_hear)) {
      alarm_.store(1, std::memory_order_release);
      return {};
    }
    return gone(peer, liveness);
  }
  return {};
}

Status WaitJudge::gone(Rank peer, Liveness liveness) {
  TUTTI_TRY(failures_.adopt_cause());  // a rank that posts a cause does so before it leaves
  const std::string end = peers_.describe_end(peer);
  if (liveness == Liveness::kDead)
    return failures_.fail_for_good(fail(Code::kRemoteError, "{} during {}", end, what_runs()), peer);
  // A process that ended without Destroy says goodbye without a number.
  const std::uint64_t last = peers_.membership().last_sequence(peer);
  const std::string when = last != 0 ? fmt::format(" after operation {}", last) : std::string();
  return failures_.fail_for_good(
      fail(Code::kRemoteError, "{}{}, but rank {} called {}", end, when, rank_.value, what_runs()), peer);
}

Status WaitJudge::look_at_clock(Rank awaited, std::uint64_t progress) {
  const Clock::time_point now = Clock::now();
  if (!waiting_ || waited_rank_ != awaited || waited_progress_ != progress) {
    waiting_ = true;
    warned_ = false;
    waited_rank_ = awaited;
    waited_progress_ = progress;
    waiting_since_ = now;
    asked_ = 0;
    return {};
  }
  const double waited = std::chrono::duration<double>(now - waiting_since_).count();
  const double timeout = running_.timeout;
  if (!warned_ && waited >= warning_time()) warn_of_wait(awaited, waited);
  if (timeout <= 0 || waited < timeout) return {};
  const Culprit culprit = culprit_of_wait(awaited);
  if (!culprit.is_known && waited < timeout + grace(awaited, culprit)) return {};
  const std::string others = running_.is_point_to_point() ? std::string() : others_missing(running_.call, view());
  return failures_.fail_for_good(fail(Code::kTimeout, "rank {} waited {:.1f} s in {}: {}{}", rank_.value, waited,
                                      what_runs(), culprit.what, others),
                                 culprit.rank);
}

/// For how much longer a rank waits that does not know the culprit. Of many far ranks not all were asked. Whoever waits
/// for the culprit itself, and cannot reach it, knows more than the others, and so tells them first.
double WaitJudge::grace(Rank awaited, const Culprit& culprit) const {
  if (peers_.far_count() <= kAllAsked) return 0;
  const bool cannot_reach = awaited != kNoRank && awaited == culprit.rank && !peers_.boards()(awaited)->state().heard();
  return std::min(kGraceSeconds, running_.timeout / 4) / (cannot_reach ? 2 : 1);
}

Status WaitJudge::kernel_timed_out(const Call& call, Rank awaited) {
  const PeerView seen = view_since_awake();  // another call may run now
  const Culprit culprit = find_absent(call, awaited, seen);
  return failures_.fail_for_good(fail(Code::kTimeout, "rank {} waited until its timeout in {}: {}{}", rank_.value,
                                      describe(call), culprit.what, others_missing(call, seen)),
                                 culprit.rank);
}

void WaitJudge::warn_of_wait(Rank awaited, double waited) {
  warned_ = true;
  // A rank that waits for ever for a message from any rank is a server between two requests, so nobody is late.
  const Transfer* const open = running_.is_point_to_point() ? transfers_.open_transfer() : nullptr;
  if (running_.timeout <= 0 && open != nullptr && open->kind == Transfer::Kind::kReceive && open->peer == kNoRank)
    return;
  const Culprit culprit = culprit_of_wait(awaited);
  if (running_.is_point_to_point())
    return log(LogLevel::kWarn, source_, "{} has waited {:.1f} s: {}", what_runs(), waited, culprit.what);
  const char* const nobody = culprit.is_known ? "nobody, all have called it" : "nobody of whom anything was heard";
  const std::string absent = missing_ranks(running_.call, view());
  log(LogLevel::kWarn, source_, "{} has waited {:.1f} s; not there: {}; {}", describe(running_.call), waited,
      absent.empty() ? nobody : absent, culprit.what);
}

Status WaitJudge::look_for_past_disagreement(std::uint64_t last) {
  for (Rank peer{0}; peer.value < ranks_; ++peer) {
    if (peer == rank_) continue;
    Call mine;
    mine.sequence = last;
    const Disagreement other = find_first_disagreement(&mine, peer, links_.board(), peers_.boards());
    if (other.rank != kNoRank)
      return failures_.fail_for_good(Status(Code::kMismatch, describe(other, mine, rank_)), peer);
  }
  return {};
}

}  // namespace tutti

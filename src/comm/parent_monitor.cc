#include "comm/parent_monitor.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace tutti {

ParentMonitor::ParentMonitor(Communicator& parent, const std::vector<int>& group, const char* call)
    : parent_(parent), group_(group), during_(fmt::format("during the {}", call)) {}

Status ParentMonitor::check() {
  TUTTI_TRY(check_parent());
  look_for_late_ranks();
  return {};
}

Status ParentMonitor::judge(const Status& why) const {
  if (why.code() == Code::kTimeout) return name_late_rank(why);
  // The parent may learn a moment later why the join ended, and knows the ranks by their numbers there.
  constexpr std::chrono::milliseconds kPause{5};
  constexpr int kLooks = 20;
  const bool unnamed = why.code() == Code::kRemoteError && !why.text().ends_with(during_);
  for (int look = 0; unnamed && look < kLooks; ++look) {
    if (Status ended = check_parent(); !ended.ok()) return ended;
    std::this_thread::sleep_for(kPause);
  }
  return why;
}

/// Fails if the parent knows why the join of the group cannot succeed any more: the parent has failed, or a rank of the
/// group has died or left.
Status ParentMonitor::check_parent() const {
  if (parent_.failures().failed()) return parent_.failures().status();
  const FailureCause cause = parent_.membership().cause();
  if (cause.code != Code::kOk)
    return fail(cause.code, "{} (told by rank {}) {}", cause.text, cause.from.value, during_);
  // Deaths come first, because a rank may have left because of one.
  for (const Liveness end : {Liveness::kDead, Liveness::kLeft}) {
    for (const int rank : group_) {
      if (parent_.membership().liveness(Rank{rank}) != end) continue;
      return fail(Code::kRemoteError, "{} {}", parent_.membership().describe_end(Rank{rank}), during_);
    }
  }
  return {};
}

/// A rank that has not come to the join may still be in the exchange before it, because of another rank. That has to be
/// found out before the deadline, because then the ranks that waited give the parent up.
void ParentMonitor::look_for_late_ranks() {
  constexpr std::chrono::milliseconds kShortest{200};
  constexpr std::chrono::milliseconds kLongest{1000};
  constexpr std::chrono::seconds kFirst{4};
  const Clock::time_point now = Clock::now();
  if (now - looked_ < std::clamp<Clock::duration>((now - began_) / 4, kShortest, kLongest)) return;
  if (looked_ != began_) late_ = parent_.judge().late_in_last_call(group_);  // by the answers so far
  looked_ = now;
  // The first question comes soon, in case the deadline does, too.
  const Clock::duration pause = parent_.peers().search_pause();
  if (now - asked_ < (asked_ == began_ ? std::min<Clock::duration>(pause, kFirst) : pause)) return;
  asked_ = now;
  parent_.peers().ask_boards(group_);
}

Status ParentMonitor::name_late_rank(const Status& why) const {
  if (late_.rank == kNoRank || parent_.judge().late_in_last_call(group_).rank == kNoRank) return why;
  return fail(why.code(), "{}; {}", late_.what, why.text());
}

}  // namespace tutti

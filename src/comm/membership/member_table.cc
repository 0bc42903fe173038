#include "comm/membership/member_table.h"

#include <algorithm>
#include <utility>

namespace tutti {

void ListenerSlot::set(std::function<void()> listener) {
  MutexLock lock(mutex_);
  listener_ = listener ? std::make_shared<const std::function<void()>>(std::move(listener)) : nullptr;
  while (running_ != 0) idle_.wait(lock);
}

void ListenerSlot::call() {
  std::shared_ptr<const std::function<void()>> listener;
  {
    const MutexLock lock(mutex_);
    if (!listener_) return;
    listener = listener_;
    ++running_;
  }
  try {
    (*listener)();
  } catch (...) {
    end_call();
    throw;
  }
  end_call();
}

void ListenerSlot::end_call() {
  const MutexLock lock(mutex_);
  if (--running_ == 0) idle_.notify_all();
}

MemberTable::MemberTable(const TableMessage& table)
    : comm_id_(table.comm_id), members_(table.members), lives_(members_.size()), last_sequences_(members_.size()) {}

Liveness MemberTable::liveness(Rank rank) const {
  const MutexLock lock(mutex_);
  return lives_[index(rank)];
}

std::uint64_t MemberTable::last_sequence(Rank rank) const {
  const MutexLock lock(mutex_);
  return last_sequences_[index(rank)];
}

std::uint64_t MemberTable::finished_by_all() const {
  const MutexLock lock(mutex_);
  return finished_by_all_;
}

void MemberTable::set_finished_by_all(std::uint64_t sequence) {
  const MutexLock lock(mutex_);
  finished_by_all_ = std::max(finished_by_all_, sequence);
}

FailureCause MemberTable::cause() const {
  const MutexLock lock(mutex_);
  return cause_;
}

std::string MemberTable::describe(Rank rank) const {
  const MutexLock lock(mutex_);
  const auto note = notes_.find(rank);
  return tutti::describe(members_[rank]) + (note == notes_.end() ? "" : ", " + note->second);
}

bool MemberTable::was_unreachable(Rank rank) const {
  const MutexLock lock(mutex_);
  return lives_[index(rank)] == Liveness::kDead && notes_.contains(rank);
}

std::string MemberTable::describe_end(Rank rank) const {
  return fmt::format("rank {} ({}) {}", rank.value, describe(rank),
                     liveness(rank) == Liveness::kDead ? "died" : "left");
}

bool MemberTable::end_life(Rank rank, Liveness liveness, std::uint64_t last_sequence, const std::string& note) {
  const MutexLock lock(mutex_);
  if (lives_[index(rank)] != Liveness::kAlive) return false;
  if (!note.empty()) notes_[rank] = note;
  lives_[index(rank)] = liveness;
  last_sequences_[index(rank)] = last_sequence;
  return true;
}

bool MemberTable::set_progress(Rank rank, std::uint64_t progress) {
  const MutexLock lock(mutex_);
  progress_.resize(members_.size());
  if (progress_[index(rank)] >= progress) return false;
  progress_[index(rank)] = progress;
  return true;
}

bool MemberTable::set_finishing(Rank rank, std::uint64_t sequence) { return set_progress(rank, 2 * sequence); }

bool MemberTable::set_finished(Rank rank, std::uint64_t sequence) { return set_progress(rank, 2 * sequence + 1); }

std::vector<MemberEvent> MemberTable::life_events() const {
  const MutexLock lock(mutex_);
  std::vector<MemberEvent> items;
  // Events that differ in their ranks only stand next to each other, because a message tells the rest of them once.
  for (const MemberEventKind kind : {MemberEventKind::kFinishing, MemberEventKind::kFinished})
    for (Rank rank{0}; rank.value < ranks(); ++rank) {
      const std::uint64_t progress = progress_.empty() ? 0 : progress_[index(rank)];
      const bool fits = (progress % 2 == 1) == (kind == MemberEventKind::kFinished);
      if (progress != 0 && fits) items.push_back({rank, kind, progress / 2, {}});
    }
  for (Rank rank{0}; rank.value < ranks(); ++rank) {
    if (lives_[index(rank)] == Liveness::kAlive) continue;
    const std::uint64_t last = last_sequences_[index(rank)];
    const auto note = notes_.find(rank);
    MemberEventKind kind = MemberEventKind::kDead;
    if (lives_[index(rank)] == Liveness::kLeft)
      kind = last != 0 && last <= finished_by_all_ ? MemberEventKind::kFinalized : MemberEventKind::kLeft;
    items.push_back({rank, kind, last, note == notes_.end() ? std::string() : note->second});
  }
  return items;
}

bool MemberTable::set_cause(FailureCause cause) {
  const MutexLock lock(mutex_);
  if (cause_.code != Code::kOk) return false;
  cause_ = std::move(cause);
  return true;
}

void MemberTable::add_listener(const std::shared_ptr<ListenerSlot>& slot) {
  const MutexLock lock(mutex_);
  listeners_.push_back(slot);
}

void MemberTable::remove_listener(const std::shared_ptr<ListenerSlot>& slot) {
  const MutexLock lock(mutex_);
  std::erase(listeners_, slot);
}

void MemberTable::notify() {
  // It goes from the end, because a listener that is removed meanwhile moves those after it. So a listener may be
  // called twice, but none is left out.
  for (std::size_t i = listener_count(); i-- > 0;)
    if (const auto slot = listener(i)) slot->call();
}

std::size_t MemberTable::listener_count() const {
  const MutexLock lock(mutex_);
  return listeners_.size();
}

std::shared_ptr<ListenerSlot> MemberTable::listener(std::size_t index) const {
  const MutexLock lock(mutex_);
  return index < listeners_.size() ? listeners_[index] : nullptr;
}

}  // namespace tutti

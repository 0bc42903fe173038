#include "comm/membership/member_table.h"

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

MemberTable::MemberTable(TableMessage table)
    : comm_id_(table.comm_id), members_(std::move(table.members)), lives_(members_.size()) {}

Liveness MemberTable::liveness(Rank rank) const {
  const MutexLock lock(mutex_);
  return lives_[static_cast<std::size_t>(rank.value)].liveness;
}

std::uint64_t MemberTable::last_sequence(Rank rank) const {
  const MutexLock lock(mutex_);
  return lives_[static_cast<std::size_t>(rank.value)].last_sequence;
}

FailureCause MemberTable::cause() const {
  const MutexLock lock(mutex_);
  return cause_;
}

std::string MemberTable::describe(Rank rank) const {
  const MutexLock lock(mutex_);
  const std::string& note = lives_[static_cast<std::size_t>(rank.value)].note;
  return tutti::describe(member(rank)) + (note.empty() ? "" : ", " + note);
}

bool MemberTable::was_unreachable(Rank rank) const {
  const MutexLock lock(mutex_);
  const LifeState& state = lives_[static_cast<std::size_t>(rank.value)];
  return state.liveness == Liveness::kDead && !state.note.empty();
}

std::string MemberTable::describe_end(Rank rank) const {
  return fmt::format("rank {} ({}) {}", rank.value, describe(rank),
                     liveness(rank) == Liveness::kDead ? "died" : "left");
}

bool MemberTable::end_life(Rank rank, Liveness liveness, std::uint64_t last_sequence, const std::string& note) {
  const MutexLock lock(mutex_);
  LifeState& state = lives_[static_cast<std::size_t>(rank.value)];
  if (state.liveness != Liveness::kAlive) return false;
  state.liveness = liveness;
  state.last_sequence = last_sequence;
  state.note = note;
  return true;
}

bool MemberTable::set_finishing(Rank rank, std::uint64_t sequence) {
  const MutexLock lock(mutex_);
  LifeState& state = lives_[static_cast<std::size_t>(rank.value)];
  if (state.finishing >= sequence) return false;
  state.finishing = sequence;
  return true;
}

std::vector<MemberEvent> MemberTable::life_events() const {
  const MutexLock lock(mutex_);
  std::vector<MemberEvent> items;
  for (const Member& member : members_) {
    const LifeState& state = lives_[static_cast<std::size_t>(member.rank.value)];
    if (state.finishing != 0) items.push_back({member.rank, MemberEventKind::kFinishing, state.finishing, {}});
    if (state.liveness == Liveness::kAlive) continue;
    const MemberEventKind kind = state.liveness == Liveness::kLeft ? MemberEventKind::kLeft : MemberEventKind::kDead;
    items.push_back({member.rank, kind, state.last_sequence, state.note});
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

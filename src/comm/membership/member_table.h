// The member table is what one process knows of a communicator: the lives of its ranks and the first cause of its
// failure. The process's ranks share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/membership/member_list.h"
#include "comm/membership/membership.h"
#include "comm/messages/messages.h"
#include "core/mutex.h"

namespace tutti {

/// A rank's listener. Any thread.
class ListenerSlot {
 public:
  /// Replaces the listener and waits for running calls of the old one.
  void set(std::function<void()> listener);
  /// Calls it, if there is one, without locks held.
  void call() TUTTI_EXCLUDES(mutex_);

 private:
  void end_call() TUTTI_EXCLUDES(mutex_);

  Mutex mutex_;
  ConditionVariable idle_;
  std::shared_ptr<const std::function<void()>> listener_ TUTTI_GUARDED_BY(mutex_);
  int running_ TUTTI_GUARDED_BY(mutex_) = 0;
};

/// Any thread. Changes call no listener; notify() does.
class MemberTable {
 public:
  explicit MemberTable(const TableMessage& table);

  int ranks() const { return static_cast<int>(members_.size()); }
  std::uint64_t comm_id() const { return comm_id_; }
  const MemberList& members() const { return members_; }

  Liveness liveness(Rank rank) const;
  std::uint64_t last_sequence(Rank rank) const;
  /// The newest operation of which a goodbye said that all ranks have finished it; 0 if none did.
  std::uint64_t finished_by_all() const;
  /// Whether the rank counts as dead because some process could not reach its host for the reconnect time; else it is
  /// known that its process has ended.
  bool was_unreachable(Rank rank) const;
  FailureCause cause() const;

  /// "process 4711 on host x", and what is known of its end.
  std::string describe(Rank rank) const;
  /// "rank 2 (process 4711 on host x) died", or "left"; of a rank that has ended.
  std::string describe_end(Rank rank) const;

  /// Ends a rank's life. Only the first end counts; it returns false if there was one before. `note` is for describe();
  /// who could not be reached has one. Takes no memory if it is empty.
  bool end_life(Rank rank, Liveness liveness, std::uint64_t last_sequence, const std::string& note = {});
  /// The rank has come to Finalize, its operation number `sequence`. Returns false if that was known.
  bool set_finishing(Rank rank, std::uint64_t sequence);
  /// The rank has finished this operation, but has not come to Finalize. Returns false if that or more was known.
  bool set_finished(Rank rank, std::uint64_t sequence);
  void set_finished_by_all(std::uint64_t sequence);
  /// The events of all ranks that are known to be finishing, to have finished or to have ended; without calls.
  std::vector<MemberEvent> life_events() const;
  /// Sets the cause. Only the first one counts; it returns false if there was one before.
  bool set_cause(FailureCause cause);

  void add_listener(const std::shared_ptr<ListenerSlot>& slot);
  void remove_listener(const std::shared_ptr<ListenerSlot>& slot);
  /// Calls all listeners without locks held. Takes no memory.
  void notify() TUTTI_EXCLUDES(mutex_);

 private:
  bool set_progress(Rank rank, std::uint64_t progress);
  static std::size_t index(Rank rank) { return static_cast<std::size_t>(rank.value); }
  std::size_t listener_count() const;
  /// nullptr if there are fewer.
  std::shared_ptr<ListenerSlot> listener(std::size_t index) const;

  const std::uint64_t comm_id_;
  const MemberList members_;
  mutable Mutex mutex_;
  // The next three are by rank, and there may be thousands of ranks. So progress_ has no entries until the first rank
  // comes to Finalize, and a note, which few ranks have, is kept apart.
  std::vector<Liveness> lives_ TUTTI_GUARDED_BY(mutex_);
  /// The number of the last operation that the rank had finished when it ended.
  std::vector<std::uint64_t> last_sequences_ TUTTI_GUARDED_BY(mutex_);
  /// 2n: the rank has come to Finalize, its operation n. 2n + 1: it has finished operation n. 0: neither was said.
  std::vector<std::uint64_t> progress_ TUTTI_GUARDED_BY(mutex_);
  std::map<Rank, std::string> notes_ TUTTI_GUARDED_BY(mutex_);  // of ranks that could not be reached
  std::uint64_t finished_by_all_ TUTTI_GUARDED_BY(mutex_) = 0;
  FailureCause cause_ TUTTI_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<ListenerSlot>> listeners_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti

// A shrink call is one rank's call of Shrink, as the calling thread and the service thread share it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "comm/messages/unique_id.h"
#include "comm/recovery/number_set.h"
#include "core/clock.h"
#include "core/mutex.h"
#include "core/status.h"
#include "core/units.h"

namespace tutti {

/// Any thread.
class ShrinkCall {
 public:
  /// The caller is to join the others who stay.
  struct Build {
    std::uint64_t number = 0;
    UniqueId id;                ///< by which they join
    std::vector<Rank> members;  ///< the old ranks of the new ones
  };
  /// The shrink is over.
  struct End {
    Status status;              ///< ok if the caller stays
    KeyId nonce{};              ///< of the id by which the caller has joined
    std::vector<Rank> members;  ///< the old ranks of the new ones
  };

  ShrinkCall(Rank rank, NumberSet excluded, Deadline deadline)
      : rank_(rank), excluded_(std::move(excluded)), deadline_(deadline) {}
  ShrinkCall(const ShrinkCall&) = delete;
  ShrinkCall& operator=(const ShrinkCall&) = delete;

  Rank rank() const { return rank_; }
  const NumberSet& excluded() const { return excluded_; }
  const Deadline& deadline() const { return deadline_; }

  /// For the service thread. A new build replaces one that has not ended. Only the first end counts.
  void build(Build order);
  void end(End how);

  // For the calling thread. What it says needs no memory; the service thread looks now and then.

  /// What became of the build with this number.
  void report(std::uint64_t number, const Status& why);
  /// The caller does not wait for the end any more.
  void abandon();
  /// Waits until there is a build that it has not taken yet, or the end, but at most so long.
  void wait(Clock::duration most);
  /// The newest build, once.
  std::optional<Build> take_build();
  /// Call it once there is one.
  End take_end();
  /// Whether the build with this number is still wanted.
  bool wants(std::uint64_t number) const;

  // For both.
  bool has_ended() const;
  bool is_abandoned() const;
  /// For the service thread: the newest report, once.
  struct Report {
    std::uint64_t number = 0;
    Status why;
  };
  std::optional<Report> take_report();

 private:
  const Rank rank_;
  const NumberSet excluded_;
  const Deadline deadline_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::optional<Build> build_ TUTTI_GUARDED_BY(mutex_);
  std::uint64_t wanted_ TUTTI_GUARDED_BY(mutex_) = 0;
  std::optional<Report> report_ TUTTI_GUARDED_BY(mutex_);
  std::optional<End> end_ TUTTI_GUARDED_BY(mutex_);
  bool abandoned_ TUTTI_GUARDED_BY(mutex_) = false;
};

}  // namespace tutti

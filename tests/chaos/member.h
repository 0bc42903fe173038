// One thread of a rank: it joins its team, works, and goes on with those that are left after each failure.
#pragma once

#include <tutti/tutti.h>

#include <chrono>
#include <vector>

#include "chaos/board.h"
#include "chaos/caller.h"
#include "chaos/plan.h"
#include "chaos/work.h"

namespace tutti::chaos {

class Member {
 public:
  explicit Member(Caller& caller);

  /// A member from the beginning: `rank` of the team's first communicator.
  void start(int rank);
  /// A newcomer.
  void come(const Invitation& invitation);

 private:
  bool join(int rank);
  /// Until the last episode has passed, or this member cannot go on.
  void live();
  bool meet();
  bool change();
  bool exclude(int excluded);
  bool grow(int newcomers);
  bool seal(tuttiComm_t grown, int ranks);
  bool revoke_by_plan(int revoker);
  bool recover();
  bool shrink(const int* exclude, int count, int flags);
  bool take(tuttiComm_t made, const std::vector<int>& numbers);
  std::vector<int> members_of(tuttiComm_t made);
  void leave();
  bool plant();
  Chance common(std::uint64_t purpose) const;

  Caller& caller_;
  Chance own_;
  tuttiConfig_t config_ = TUTTI_CONFIG_INITIALIZER;
  Place place_;
  std::vector<int> numbers_;  ///< the members at the first ranks; newcomers' are not known before the ranks meet
  bool has_met_ = false;      ///< the ranks of this communicator know each other, and their episode
  int episode_ = 0;
};

}  // namespace tutti::chaos

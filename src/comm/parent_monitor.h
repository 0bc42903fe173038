// Ranks that make a new communicator out of an old one look at the old one, the parent, while they join.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/failure/culprit.h"
#include "core/clock.h"
#include "core/status.h"

namespace tutti {

/// Looks at the parent while the join of a split or grow lasts, and explains the join's failure by what the parent
/// knows. For the API's thread.
class ParentMonitor {
 public:
  /// `group`: the ranks of the parent that join; it outlives this. `call` is what the texts call it: "split".
  ParentMonitor(Communicator& parent, const std::vector<int>& group, const char* call);

  /// Fails if the join cannot succeed any more.
  Status check();
  /// Returns the failure of the join as the caller should get it.
  Status judge(const Status& why) const;

 private:
  Status check_parent() const;
  void look_for_late_ranks();
  Status name_late_rank(const Status& why) const;

  Communicator& parent_;
  const std::vector<int>& group_;
  const std::string during_;  // the end of each text that comes from the parent
  const Clock::time_point began_ = Clock::now();
  Clock::time_point looked_ = began_, asked_ = began_;
  Culprit late_;
};

}  // namespace tutti

// Whether a communicator's ranks have a core each. The process's other communicators know it, too.
#pragma once

#include <memory>

namespace tutti {

/// A value that a communicator keeps. Ranks of a part of an oversubscribed communicator have no cores of their own
/// either, because the other ranks need cores for other communicators.
class Oversubscription {
 public:
  Oversubscription() = default;
  /// For `ranks` ranks that run on `cores` cores. Any thread.
  Oversubscription(int ranks, int cores);

  /// How many ranks share a core, rounded up, in this communicator or in one that was made before in this process and
  /// was still there then, whichever are more.
  int ranks_per_core() const { return ranks_per_core_; }

 private:
  struct Counts;
  class Mark;

  int ranks_per_core_ = 1;
  std::shared_ptr<const Mark> mark_;  // held if the communicator's own ranks are too many
};

}  // namespace tutti

// Whether a communicator's ranks have a core each, of which the process's other communicators know, too.
#pragma once

#include <memory>

namespace tutti {

/// A value that a communicator keeps. Ranks of a part of an oversubscribed communicator have no cores of their own
/// either: the others need them, if not for this communicator, then for another part.
class Oversubscription {
 public:
  Oversubscription() = default;
  /// For `ranks` that run on `cores`. Any thread.
  Oversubscription(int ranks, int cores);

  /// There are more ranks than cores: of this communicator, or of one that was made before in this process and was
  /// still there then.
  bool oversubscribed() const { return oversubscribed_; }

 private:
  bool oversubscribed_ = false;
  std::shared_ptr<void> mark_;  // held where the communicator's own ranks are too many
};

}  // namespace tutti

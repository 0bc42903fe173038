// The descendants of a communicator are those that were split from it, and those split from them.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "core/units.h"

namespace tutti {

class Communicator;

/// Any thread.
class Descendants {
 public:
  /// `group` has the ranks of the parent that are those of the child, in the child's order.
  void add(const std::weak_ptr<Communicator>& child, std::vector<int> group) {
    const MutexLock lock(mutex_);
    std::erase_if(children_, [](const Child& known) { return known.comm.expired(); });
    children_.push_back(Child{child, std::move(group)});
  }
  /// Calls `each` with every child that still exists, and its group.
  void for_each(const std::function<void(Communicator& child, const std::vector<int>& group)>& each) const {
    std::vector<Child> children;
    {
      const MutexLock lock(mutex_);
      children = children_;
    }
    for (const Child& child : children)
      if (const auto comm = child.comm.lock()) each(*comm, child.group);
  }

 private:
  struct Child {
    std::weak_ptr<Communicator> comm;
    std::vector<int> group;
  };
  mutable Mutex mutex_;
  std::vector<Child> children_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti

// The id by which forked ranks meet.
#pragma once

#include <tutti/tutti.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

#include "support/await.h"

namespace tutti::test {

/// In memory that the ranks share: one of them makes it, all of them take it. Whoever cannot ends its process.
class MeetingId {
 public:
  void make() {
    if (tuttiGetUniqueId(&id_) != tuttiSuccess) {
      std::fprintf(stderr, "no id: %s\n", tuttiGetLastError(nullptr));
      ::_exit(3);
    }
    is_made_.store(true);
  }
  const tuttiUniqueId& take() const {
    await_or_exit([this] { return is_made_.load(); }, "the id of rank 0");
    return id_;
  }

 private:
  std::atomic<bool> is_made_{false};
  tuttiUniqueId id_{};
};

}  // namespace tutti::test

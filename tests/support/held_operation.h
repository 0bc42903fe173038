// A reduction of the user's that does not return before it is let go.
#pragma once

#include <tutti/tutti.h>

#include <atomic>
#include <cstddef>

#include "support/await.h"

namespace tutti::test {

/// For tuttiRedOpCreateCustom(), with this object as `user`. It leaves the values as they are.
struct HeldOperation {
  std::atomic<bool> begun{false}, let_go{false};

  static void run(const void*, void*, std::size_t, tuttiDataType_t, void* user) {
    auto& self = *static_cast<HeldOperation*>(user);
    self.begun = true;
    await([&self] { return self.let_go.load(); }, "the end of the operation");
  }
};

}  // namespace tutti::test

// What a thread has had of its core, which tells whether other programs took it away.
#pragma once

namespace tutti::race {

struct CoreUse {
  double wall = 0, cpu = 0;  ///< seconds
  long switches = 0;         ///< to another thread, not wanted by this one

  /// Of the calling thread, so far.
  static CoreUse now();
  /// Whether other programs took the core of a rank that polls, between two looks. (With more ranks than cores they
  /// take it from each other, and nothing can be told.)
  static bool was_disturbed(const CoreUse& begin, const CoreUse& end);
};

}  // namespace tutti::race

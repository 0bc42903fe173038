// How much a run of the tests covers. TEST_DEPTH=all: everything; else the short run, which leaves out repetition:
// sizes of proofs, and layouts and types that other cases cover. docs/testing.md has the list.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace tutti::test {

inline bool covers_all() {
  static const bool all = [] {
    const char* const depth = std::getenv("TEST_DEPTH");
    return depth != nullptr && std::string_view(depth) == "all";
  }();
  return all;
}

/// How many points of something are tried, each in a job of its own: all, or a sample in a short run.
inline long points_tried(long all, long sample) { return covers_all() ? all : std::min(all, sample); }

}  // namespace tutti::test

// The search through all orders of events of a scene.
#pragma once

#include <cstdint>
#include <string>

#include "comm/recovery/explored_world.h"

namespace tutti::test {

struct Exploration {
  std::uint64_t states = 0;
  std::uint64_t events = 0;
  std::uint64_t rests = 0;    // states in which nothing happens any more but by choice
  std::uint64_t ends = 0;     // those of them in which no choice is left
  std::size_t processes = 0;  // different ones
  std::set<std::string> outcomes;
  std::string violation;  // with the events that lead to it
};

/// Visits every state that can be reached, or stops at the first violation: one of the world's, or messages that can go
/// round for ever.
Exploration explore(const Scene& scene);

}  // namespace tutti::test

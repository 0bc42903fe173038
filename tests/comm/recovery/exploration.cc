#include "comm/recovery/exploration.h"

#include <fmt/format.h>

#include <deque>
#include <unordered_set>

namespace tutti::test {
namespace {

struct HashOfHash {
  std::size_t operator()(const StateHash& hash) const { return hash.low; }
};

/// A set of hashes in one block: millions of them in little memory.
class HashSet {
 public:
  HashSet() : slots_(1 << 12) {}
  bool insert(const StateHash& hash) {
    if (2 * count_ > slots_.size()) grow();
    if (!put(hash)) return false;
    ++count_;
    return true;
  }
  std::uint64_t size() const { return count_; }

 private:
  bool put(const StateHash& hash) {
    for (std::size_t i = hash.high & (slots_.size() - 1);; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i] == hash) return false;
      if (slots_[i] == StateHash{}) {
        slots_[i] = hash;
        return true;
      }
    }
  }
  void grow() {
    std::vector<StateHash> old(2 * slots_.size());
    old.swap(slots_);
    for (const StateHash& hash : old)
      if (hash != StateHash{}) put(hash);
  }

  std::vector<StateHash> slots_;
  std::uint64_t count_ = 0;
};

/// The events of a path as text, and what is wrong at its end.
std::string text_of_path(World* world, const std::vector<WorldEvent>& path, const std::string& violation) {
  std::string text = violation + ", after:\n";
  WorldState state = world->first();
  for (const WorldEvent& event : path) {
    text += "  " + world->describe(event, state) + "\n";
    world->apply(event, &state);
  }
  return text;
}

/// Depth first, so that only one path is in memory, and a state that is met again on it is seen.
class DepthFirst {
 public:
  explicit DepthFirst(World* world) : world_(*world) {}

  Exploration run() {
    enter(world_.first(), world_.hash(world_.first()));
    while (!path_.empty() && result_.violation.empty()) {
      Frame& frame = path_.back();
      if (frame.next == frame.events.size()) {
        on_path_.erase(frame.hash);
        path_.pop_back();
        continue;
      }
      WorldState state = frame.state;
      ++result_.events;
      std::string violation = world_.apply(frame.events[frame.next++], &state);
      if (!violation.empty()) return fail(violation);
      const StateHash hash = world_.hash(state);
      if (seen_.insert(hash))
        enter(state, hash);
      else if (on_path_.contains(hash))
        return fail("messages go round for ever");
    }
    result_.states = seen_.size();
    return result_;
  }

 private:
  struct Frame {
    WorldState state;
    StateHash hash;
    std::vector<WorldEvent> events;
    std::size_t next = 0;
  };

  void enter(const WorldState& state, const StateHash& hash) {
    seen_.insert(hash);
    on_path_.insert(hash);
    path_.push_back({state, hash, {}, 0});
    world_.list_events(state, &path_.back().events);
    if (!world_.is_at_rest()) return;
    ++result_.rests;
    if (path_.back().events.empty()) ++result_.ends;
    if (const std::string violation = world_.check_rest(state); !violation.empty()) fail(violation);
  }

  Exploration fail(const std::string& violation) {
    std::vector<WorldEvent> path;
    for (const Frame& frame : path_)
      if (frame.next > 0) path.push_back(frame.events[frame.next - 1]);
    result_.states = seen_.size();
    result_.violation = text_of_path(&world_, path, violation);
    return result_;
  }

  World& world_;
  HashSet seen_;
  std::unordered_set<StateHash, HashOfHash> on_path_;
  std::vector<Frame> path_;
  Exploration result_;
};

/// Breadth first, for the shortest way to a violation. Gives up where too many states wait: "".
std::string shortest_violation(World* world) {
  constexpr std::size_t kMostWaiting = 300000;
  struct Step {
    std::size_t parent;
    WorldEvent event;
  };
  HashSet seen;
  std::vector<Step> steps(1);
  std::deque<std::pair<std::size_t, WorldState>> waiting{{0, world->first()}};
  std::vector<WorldEvent> events;
  const auto text = [&](std::size_t at, const std::string& violation) {
    std::vector<WorldEvent> path;
    for (; at != 0; at = steps[at].parent) path.insert(path.begin(), steps[at].event);
    return text_of_path(world, path, violation);
  };
  while (!waiting.empty() && waiting.size() < kMostWaiting) {
    const auto [at, state] = waiting.front();
    waiting.pop_front();
    world->list_events(state, &events);
    if (world->is_at_rest())
      if (const std::string violation = world->check_rest(state); !violation.empty()) return text(at, violation);
    for (const WorldEvent& event : events) {
      WorldState next = state;
      const std::string violation = world->apply(event, &next);
      if (violation.empty() && !seen.insert(world->hash(next))) continue;
      steps.push_back({at, event});
      if (!violation.empty()) return text(steps.size() - 1, violation);
      waiting.emplace_back(steps.size() - 1, next);
    }
  }
  return "";
}

}  // namespace

Exploration explore(const Scene& scene) {
  World world(scene);
  Exploration result = DepthFirst(&world).run();
  result.outcomes = world.outcomes();
  result.processes = world.known_processes();
  if (result.violation.empty()) return result;
  if (const std::string shortest = shortest_violation(&world); !shortest.empty()) result.violation = shortest;
  return result;
}

}  // namespace tutti::test

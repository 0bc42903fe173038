// How far apart the cores are, as a cache line tells that goes to and fro between them.
#pragma once

#include <atomic>
#include <cstdint>

namespace tutti::race {

/// Mixed: the state changed within a pair. Disturbed: something else ran on the cores.
enum class State { kNear, kFar, kMixed, kDisturbed };
inline constexpr State kStates[] = {State::kNear, State::kFar, State::kMixed, State::kDisturbed};
inline constexpr const char* kStateNames[] = {"near", "far", "mixed", "disturbed"};

/// One way below this many nanoseconds: the cores share a cache.
inline constexpr double kNearBelow = 120;

/// near or far when all measurements agree.
State state_of(double before, double between, double after);

/// Two lines of memory that two threads or processes share; zeroed at first.
struct PingLines {
  struct Line {
    alignas(128) std::atomic<std::uint64_t> value;
  };
  Line there, back;  // each pairs with the other side's acquire load
};

/// One side of the game, both at the same time: about 0.1 ms near, 0.5 ms far. Spins, and yields after a while. `sent`:
/// what each side keeps between games, 0 at first. Nanoseconds one way; right on the side that begins.
double play_ping(PingLines* lines, bool begins, std::uint64_t* sent);

/// Spins, and yields when the other may need this core.
void spin_until(const std::atomic<std::uint64_t>& line, std::uint64_t value);

}  // namespace tutti::race

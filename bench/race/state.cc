#include "state.h"

#include <sched.h>

#include <chrono>

namespace tutti::race {
namespace {

constexpr int kArrival = 20;
constexpr int kTrips = 1000;
constexpr int kSpins = 20000;

}  // namespace

State state_of(double before, double between, double after) {
  const bool near = before < kNearBelow && between < kNearBelow && after < kNearBelow;
  const bool far = before >= kNearBelow && between >= kNearBelow && after >= kNearBelow;
  return near ? State::kNear : far ? State::kFar : State::kMixed;
}

void spin_until(const std::atomic<std::uint64_t>& line, std::uint64_t value) {
  for (int spins = 0; line.load(std::memory_order_acquire) != value; ++spins) {
    if (spins >= kSpins) sched_yield();
  }
}

double play_ping(PingLines* lines, bool begins, std::uint64_t* sent) {
  auto start = std::chrono::steady_clock::now();
  for (int trip = 0; trip < kArrival + kTrips; ++trip) {
    // The first trips contain the wait for the other side to arrive.
    if (trip == kArrival) start = std::chrono::steady_clock::now();
    ++*sent;
    if (begins) lines->there.value.store(*sent, std::memory_order_release);
    spin_until(begins ? lines->back.value : lines->there.value, *sent);
    if (!begins) lines->back.value.store(*sent, std::memory_order_release);
  }
  const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
  return elapsed.count() / (2.0 * kTrips);
}

}  // namespace tutti::race

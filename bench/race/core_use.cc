#include "core_use.h"

#include <sys/resource.h>
#include <time.h>

#include <algorithm>

namespace tutti::race {
namespace {

// Disturbed is who lost the core more often than this a second (once is nothing: the kernel's own threads do that), or
// had it for less than this share of the time: on a quiet machine a waiting rank polls.
constexpr double kQuietSwitches = 150;
constexpr double kQuietShare = 0.9;

double seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

CoreUse CoreUse::now() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return {seconds(CLOCK_MONOTONIC), seconds(CLOCK_THREAD_CPUTIME_ID), usage.ru_nivcsw};
}

bool CoreUse::was_disturbed(const CoreUse& begin, const CoreUse& end) {
  const double wall = end.wall - begin.wall;
  return static_cast<double>(end.switches - begin.switches) > std::max(1.0, kQuietSwitches * wall) ||
         end.cpu - begin.cpu < kQuietShare * wall;
}

}  // namespace tutti::race

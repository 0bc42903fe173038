// What measurements that take turns share: a clock, the median of the turns, and how a failed call ends a measurement.
#pragma once

#include <time.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <vector>

/// Returns from a function of tuttiResult_t if the call failed.
#define PERF_TRY(expression)                             \
  do {                                                   \
    const tuttiResult_t perf_result = (expression);      \
    if (perf_result != tuttiSuccess) return perf_result; \
  } while (false)

namespace tutti::perf {

/// The time of a clock in seconds; the clock is CLOCK_MONOTONIC or CLOCK_THREAD_CPUTIME_ID.
inline double seconds_on(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}
inline double now() { return seconds_on(CLOCK_MONOTONIC); }

/// There must be at least one value.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace tutti::perf

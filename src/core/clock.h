// Monotonic time and deadlines.
#pragma once

#include <chrono>
#include <cmath>

namespace tutti {

using Clock = std::chrono::steady_clock;

/// A point in time after which a wait ends; or never.
class Deadline {
 public:
  static Deadline never() { return Deadline(Clock::time_point::max()); }
  /// `seconds` from now; 0, negative, NaN or more than a century: never.
  static Deadline in(double seconds) {
    if (!(seconds > 0) || seconds > 3.0e9) return never();
    return Deadline(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
  }
  bool is_never() const { return at_ == Clock::time_point::max(); }
  bool passed() const { return !is_never() && Clock::now() >= at_; }
  Clock::time_point at() const { return at_; }
  /// What is left, at least 0 and at most `limit`.
  std::chrono::nanoseconds left(std::chrono::nanoseconds limit) const {
    if (is_never()) return limit;
    const auto rest = std::chrono::duration_cast<std::chrono::nanoseconds>(at_ - Clock::now());
    return rest < std::chrono::nanoseconds::zero() ? std::chrono::nanoseconds::zero() : (rest < limit ? rest : limit);
  }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

}  // namespace tutti

// What the program wants to be called when a group fails, for example to write down what was under way.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include <c10/util/Exception.h>

namespace tutti_torch {

class AbortHooks {
 public:
  using Hook = std::function<void()>;

  /// Replaces a hook of the same number.
  void add(std::int64_t number, Hook hook);
  void remove(std::int64_t number);
  /// Calls all of them, in the order of their numbers. What a hook raises is a warning.
  void run() const;
  /// Calls them because the group has failed.
  void run_for_failure() const;
  /// While members change, the end of the old ones is no failure.
  void expect_failure(bool expected) { expected_.store(expected, std::memory_order_relaxed); }
  /// Runs `call`. Before an error that is final for the group goes on to the caller, the hooks run.
  template <class Call>
  void watch(const Call& call) const {
    try {
      call();
    } catch (const c10::DistBackendError&) {
      run_for_failure();
      throw;
    }
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::int64_t, std::shared_ptr<const Hook>> hooks_;  // a hook of Python's is copied under Python's lock
  std::atomic<bool> expected_{false};                          // alone: it orders nothing
};

}  // namespace tutti_torch

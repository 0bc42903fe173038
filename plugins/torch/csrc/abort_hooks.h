// Abort hooks are functions of the program that are called when a group fails, for example to write down what was under
// way.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include <c10/util/Exception.h>

#include "endpoint.h"

namespace tutti_torch {

class AbortHooks {
 public:
  using Hook = std::function<void()>;

  /// Replaces a hook of the same number.
  void add(std::int64_t number, Hook hook);
  void remove(std::int64_t number);
  /// Calls all of them, in the order of their numbers. What a hook raises is a warning.
  void run() const;
  /// The group has failed, unless it has ended `endpoint` itself: calls the hooks.
  void run_for_failure(const Endpoint& endpoint);
  /// Runs `call`, which uses `endpoint`. Before an error that is final for the group goes on to the caller, hooks run.
  template <class Call>
  void watch(const Endpoint& endpoint, const Call& call) {
    try {
      call();
    } catch (const c10::DistBackendError&) {
      run_for_failure(endpoint);
      throw;
    }
  }
  /// Until end_change(), a failure may be the end of the old members, who have gone over to the new ones already.
  void begin_change();
  /// If the members stay the old ones, a failure in between was one: calls the hooks.
  void end_change(bool has_changed);

 private:
  mutable std::mutex mutex_;
  std::map<std::int64_t, std::shared_ptr<const Hook>> hooks_;  // a hook of Python's is copied under Python's lock
  bool changes_ = false;                                       // between begin_change() and end_change()
  bool failed_meanwhile_ = false;
};

}  // namespace tutti_torch

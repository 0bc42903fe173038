#include "abort_hooks.h"

#include <utility>

namespace tutti_torch {

void AbortHooks::add(std::int64_t number, Hook hook) {
  auto shared = std::make_shared<const Hook>(std::move(hook));
  const std::lock_guard<std::mutex> lock(mutex_);
  hooks_[number].swap(shared);  // the older one is freed outside the lock: that may take Python's
}

void AbortHooks::remove(std::int64_t number) {
  std::shared_ptr<const Hook> removed;  // freed outside the lock: that may take Python's
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = hooks_.find(number);
  if (found == hooks_.end()) return;
  removed = std::move(found->second);
  hooks_.erase(found);
}

// Hooks are called from a copy of the list, because a hook may add and remove hooks.
void AbortHooks::run() const {
  std::map<std::int64_t, std::shared_ptr<const Hook>> hooks;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    hooks = hooks_;
  }
  for (const auto& [number, hook] : hooks) {
    try {
      (*hook)();
    } catch (const std::exception& error) {
      TORCH_WARN("tutti: abort hook ", number, " failed: ", error.what());
    }
  }
}

void AbortHooks::run_for_failure(const Endpoint& endpoint) {
  if (endpoint.aborted()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    failed_meanwhile_ = changes_;
    if (changes_) return;
  }
  run();
}

void AbortHooks::begin_change() {
  const std::lock_guard<std::mutex> lock(mutex_);
  changes_ = true;
  failed_meanwhile_ = false;
}

void AbortHooks::end_change(bool has_changed) {
  bool failed = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    changes_ = false;
    failed = std::exchange(failed_meanwhile_, false);
  }
  if (failed && !has_changed) run();
}

}  // namespace tutti_torch

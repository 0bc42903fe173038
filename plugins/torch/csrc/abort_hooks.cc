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

// Of a copy: a hook may add and remove hooks.
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

void AbortHooks::run_for_failure() const {
  if (!expected_.load(std::memory_order_relaxed)) run();
}

}  // namespace tutti_torch

// What tests ask of the stand-in: failures to come, and how often it was called.
#include <algorithm>
#include <functional>
#include <utility>

#include "support/device/stand_in_driver.h"

namespace tutti::test {

void StandInDriver::fail_next(const std::string& function, const std::string& text) {
  const std::lock_guard lock(mutex_);
  failures_[function] = text;
}

void StandInDriver::forget_failures() {
  const std::lock_guard lock(mutex_);
  failures_.clear();
  actions_.clear();
}

void StandInDriver::before_each(const std::string& function, std::function<void()> action) {
  const std::lock_guard lock(mutex_);
  actions_[function] = std::move(action);
}

Status StandInDriver::failure(const std::string& function) {
  std::function<void()> action;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = actions_.find(function); found != actions_.end()) action = found->second;
  }
  if (action) action();
  const std::lock_guard lock(mutex_);
  const auto found = failures_.find(function);
  if (found == failures_.end()) return {};
  const std::string text = found->second;
  failures_.erase(found);
  return fail(Code::kUnhandledCudaError, "{}: {}", function, text);
}

void StandInDriver::count(const char* function) {
  const std::lock_guard lock(counting_);
  ++counts_[function];
}

std::map<std::string, std::size_t> StandInDriver::calls() {
  const std::lock_guard lock(counting_);
  return counts_;
}

std::size_t StandInDriver::allocations() {
  const std::lock_guard lock(mutex_);
  return memories_.size() + mappings_.count();
}

std::size_t StandInDriver::device_allocations() {
  const std::lock_guard lock(mutex_);
  const auto on_device = [](const auto& item) { return item.second.device >= 0; };
  return static_cast<std::size_t>(std::count_if(memories_.begin(), memories_.end(), on_device)) + mappings_.count();
}

}  // namespace tutti::test

// Steps that must not fail, but need a little memory.
#pragma once

#include <atomic>
#include <chrono>
#include <new>
#include <thread>

namespace tutti {

/// A step of this process was left out for lack of memory, and none has found any since. It orders nothing and so has
/// no partner: a thread that sees an old value waits longer or shorter.
inline std::atomic<bool> memory_is_used_up{false};

/// Runs a step of a destructor, or one that follows a failure. If there is no memory for the step, it is tried again a
/// hundred times within a second; then it is left out, as it is after any other exception. The steps after it are tried
/// for a tenth of a second each, until one finds memory: else the end of a few communicators would take a minute.
/// False: it was left out.
template <class Step>
bool retry_without_memory(const Step& step) noexcept {
  constexpr std::chrono::milliseconds kPause{10};
  constexpr int kTries = 100;
  constexpr int kTriesWhenUsedUp = 10;
  const int most = memory_is_used_up.load(std::memory_order_relaxed) ? kTriesWhenUsedUp : kTries;
  for (int tries = 0; tries < most; ++tries) {
    try {
      step();
      memory_is_used_up.store(false, std::memory_order_relaxed);
      return true;
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(kPause);
    } catch (...) {
      return false;
    }
  }
  memory_is_used_up.store(true, std::memory_order_relaxed);
  return false;
}

}  // namespace tutti

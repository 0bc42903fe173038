// Steps that must not fail, but need a little memory.
#pragma once

#include <chrono>
#include <new>
#include <thread>

namespace tutti {

/// Runs a step of a destructor, or one that follows a failure. If there is no memory for the step, it is tried again a
/// hundred times within a second; then it is left out, as it is after any other exception.
template <class Step>
void retry_without_memory(const Step& step) noexcept {
  constexpr std::chrono::milliseconds kPause{10};
  constexpr int kTries = 100;
  for (int tries = 0; tries < kTries; ++tries) {
    try {
      return step();
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(kPause);
    } catch (...) {
      return;
    }
  }
}

}  // namespace tutti

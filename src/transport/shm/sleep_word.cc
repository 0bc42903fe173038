#include "transport/shm/sleep_word.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace tutti {
namespace {

// FUTEX_PRIVATE_FLAG is not set, so that the kernel knows the word by its page and processes meet on it.
long futex(std::atomic<std::uint32_t>* word, int operation, std::uint32_t value, const timespec* timeout) {
  return ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(word), operation, value, timeout, nullptr, 0);
}

}  // namespace

bool SleepWord::sleep(std::chrono::nanoseconds slice) {
  const std::uint32_t announced = word_.load(std::memory_order_relaxed);  // peers only set it to 0
  if (announced != 0 && slice > std::chrono::nanoseconds::zero()) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(slice);
    timespec timeout{};
    timeout.tv_sec = static_cast<time_t>(seconds.count());
    timeout.tv_nsec = static_cast<long>((slice - seconds).count());
    futex(&word_, FUTEX_WAIT, announced,
          &timeout);  // the result does not matter, because the caller looks again anyway
  }
  return word_.exchange(0, std::memory_order_acquire) == 0;  // pairs with the exchange in wake()
}

void SleepWord::wake() {
  if (word_.exchange(0, std::memory_order_acq_rel) != 0) futex(&word_, FUTEX_WAKE, INT_MAX, nullptr);
}

bool ProcessBarrier::enroll() { return ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0; }

bool ProcessBarrier::run() { return ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0; }

}  // namespace tutti

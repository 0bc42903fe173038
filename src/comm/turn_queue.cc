#include "comm/turn_queue.h"

#include "core/retry.h"

namespace tutti {

void TurnQueue::notify() {
  const MutexLock lock(mutex_);
  while (given_up_.erase(ended_.load(std::memory_order_relaxed)) != 0) ended_.fetch_add(1, std::memory_order_release);
  changed_.notify_all();
}

void TurnQueue::give_up(std::uint64_t ticket) {
  retry_without_memory([&] {
    const MutexLock lock(mutex_);
    given_up_.insert(ticket);
  });
  notify();
}

bool TurnQueue::wait_for_end(Clock::duration most) {
  MutexLock lock(mutex_);
  if (!is_empty()) (void)changed_.wait_until(lock, Clock::now() + most);
  return is_empty();
}

}  // namespace tutti

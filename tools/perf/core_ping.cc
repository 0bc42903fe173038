#include "core_ping.h"

#include <pthread.h>

#include <vector>

namespace tutti::perf {
namespace {

std::vector<int> cores_of(const cpu_set_t& set) {
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

void bind(pthread_t thread, int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  pthread_setaffinity_np(thread, sizeof set, &set);
}

}  // namespace

CorePing::CorePing() {
  CPU_ZERO(&usable_);
  sched_getaffinity(0, sizeof usable_, &usable_);
  const std::vector<int> cores = cores_of(usable_);
  if (cores.size() < 2) return;
  other_ = std::thread([this] { answer(); });
  bind(other_.native_handle(), cores[1]);
  bind(pthread_self(), cores[0]);
}

CorePing::~CorePing() {
  if (!other_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  begun_.notify_one();
  other_.join();
  sched_setaffinity(0, sizeof usable_, &usable_);
}

double CorePing::one_way_ns() {
  if (!other_.joinable()) return 0;
  {
    const std::lock_guard lock(mutex_);
    ++games_;
  }
  begun_.notify_one();
  return race::play_ping(&lines_, true, &sent_);
}

void CorePing::answer() {
  std::uint64_t sent = 0;
  for (int played = 0;; ++played) {
    {
      std::unique_lock lock(mutex_);
      begun_.wait(lock, [&] { return games_ > played || ended_; });
      if (ended_) return;
    }
    race::play_ping(&lines_, false, &sent);
  }
}

}  // namespace tutti::perf

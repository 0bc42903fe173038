#include "comm/device/stream_deadlock_check.h"

#include <algorithm>
#include <atomic>

namespace tutti {

bool StreamKey::meets(const StreamKey& other) const {
  if (device != other.device || capture != other.capture) return false;
  if (handle == other.handle && thread == other.thread) return true;
  return (is_default && !other.is_apart) || (other.is_default && !is_apart);
}

std::uint64_t stream_thread() {
  static std::atomic<std::uint64_t> threads{0};  // relaxed: the number orders nothing
  static thread_local const std::uint64_t own = threads.fetch_add(1, std::memory_order_relaxed) + 1;
  return own;
}

// Call `n` of another rank on the stream cannot end before this rank has made call `n`. If this rank has made it, on
// whichever stream, the other rank's call ends by itself, and may come before this rank's next call.
Status StreamDeadlockCheck::check(Rank rank, const StreamKey& stream, std::uint64_t number) const {
  for (const Entry& entry : entries_)
    if (entry.rank != rank && entry.number >= number && entry.stream.meets(stream))
      return fail(Code::kInvalidUsage,
                  "the CUDA stream of rank {}'s call {} on device {} has call {} of rank {} before it, which waits for "
                  "it: ranks of one communicator need streams of their own",
                  rank.value, number, stream.device, entry.number, entry.rank.value);
  return {};
}

Status StreamDeadlockCheck::follow(Rank rank, const StreamKey& stream, std::uint64_t number) {
  const MutexLock lock(mutex_);
  TUTTI_TRY(check(rank, stream, number));
  newest_[rank] = number;
  return {};
}

Status StreamDeadlockCheck::enter(Rank rank, std::span<const StreamKey> streams, std::uint64_t number) {
  const MutexLock lock(mutex_);
  for (const StreamKey& stream : streams) TUTTI_TRY(check(rank, stream, number));
  for (const StreamKey& stream : streams) put(rank, stream, number);
  newest_[rank] = number;
  forget_passed();
  return {};
}

void StreamDeadlockCheck::put(Rank rank, const StreamKey& stream, std::uint64_t number) {
  const auto known = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.rank == rank && entry.stream.handle == stream.handle && entry.stream.thread == stream.thread &&
           entry.stream.capture == stream.capture;
  });
  if (known != entries_.end())
    known->number = number;
  else
    entries_.push_back({rank, stream, number});
}

// Streams come and go, and this must not grow with them.
void StreamDeadlockCheck::forget_passed() {
  if (newest_.size() < ranks_) return;
  const auto lowest = std::min_element(newest_.begin(), newest_.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
  std::erase_if(entries_, [passed = lowest->second](const Entry& entry) { return entry.number <= passed; });
}

}  // namespace tutti

// Finds deadlocks before they are there: of two ranks of one communicator on one CUDA stream, the second one's kernel
// cannot start until the first one's ends, which waits for the second.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/mutex.h"
#include "core/status.h"
#include "core/units.h"
#include "device/device_driver.h"

namespace tutti {

/// Tells streams apart: calls that are put on one of them run one after another.
struct StreamKey {
  int device = -1;
  DeviceDriver::Stream handle = nullptr;
  std::uint64_t thread = 0;   ///< of a handle that stands for another stream in each thread; else 0
  std::uint64_t capture = 0;  ///< 0: what is put there runs
  bool is_default = false;    ///< waits for all streams of its device that are not apart, and they for it
  bool is_apart = true;

  /// Whether a call on one of the two streams may have to wait for an earlier call on the other.
  bool meets(const StreamKey& other) const;
};

/// The calling thread's number in StreamKey::thread; no two threads of a process ever have the same.
std::uint64_t stream_thread();

/// Which CUDA streams the ranks of one communicator in this process use. Numbers of calls grow on each rank, and mean
/// the same call on all. Any thread; does not block.
class StreamDeadlockCheck {
 public:
  /// `ranks`: how many use this; what all have passed is forgotten.
  explicit StreamDeadlockCheck(std::size_t ranks) : ranks_(ranks) {}
  /// The rank's next call goes to all of `streams`. kInvalidUsage: it would stand after a call that waits for it.
  Status enter(Rank rank, std::span<const StreamKey> streams, std::uint64_t number);
  /// Checks as enter() does, for a call that runs elsewhere after what is on the stream.
  Status follow(Rank rank, const StreamKey& stream, std::uint64_t number);

 private:
  struct Entry {
    Rank rank;
    StreamKey stream;
    std::uint64_t number;
  };
  Status check(Rank rank, const StreamKey& stream, std::uint64_t number) const TUTTI_REQUIRES(mutex_);
  void put(Rank rank, const StreamKey& stream, std::uint64_t number) TUTTI_REQUIRES(mutex_);
  void forget_passed() TUTTI_REQUIRES(mutex_);

  const std::size_t ranks_;
  Mutex mutex_;
  std::vector<Entry> entries_ TUTTI_GUARDED_BY(mutex_);  // a rank's newest on each stream
  std::map<Rank, std::uint64_t> newest_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti

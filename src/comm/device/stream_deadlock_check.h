// Finds deadlocks before they happen. If two ranks of one communicator use one CUDA stream, the kernel of the second
// rank cannot start before that of the first one ends, which waits for the second.
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

/// Identifies a stream. Calls that are put on one stream run one after another.
struct StreamKey {
  int device = -1;
  DeviceDriver::Stream handle = nullptr;
  std::uint64_t thread = 0;   ///< the thread, if the handle stands for another stream in each thread; else 0
  std::uint64_t capture = 0;  ///< the graph capture that records what is put there; 0 if it runs instead
  bool is_default = false;    ///< it waits for all streams of its device that are not apart, and they wait for it
  bool is_apart = true;

  /// Whether a call on one of the two streams may have to wait for an earlier call on the other.
  bool meets(const StreamKey& other) const;
};

/// The calling thread's number in StreamKey::thread; no two threads of a process ever have the same.
std::uint64_t stream_thread();

/// Knows which CUDA streams the ranks of one communicator in this process use. The numbers of calls grow on each rank,
/// and a number means the same call on all ranks. Any thread; does not block.
class StreamDeadlockCheck {
 public:
  /// `ranks` says how many ranks use this. Calls that all of them have passed are forgotten.
  explicit StreamDeadlockCheck(std::size_t ranks) : ranks_(ranks) {}
  /// The rank's next call goes to all of `streams`. Returns kInvalidUsage if it would come after a call that waits for
  /// it.
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
  std::vector<Entry> entries_ TUTTI_GUARDED_BY(mutex_);  // the newest call of each rank on each stream
  std::map<Rank, std::uint64_t> newest_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti

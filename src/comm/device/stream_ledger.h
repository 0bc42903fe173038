// Which CUDA streams the ranks of one communicator in this process use: a call that stands behind one of another rank
// on a stream, and is what that one waits for, would wait for it for ever.
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

/// A place where calls are put, one after another.
struct StreamKey {
  int device = -1;
  DeviceDriver::Stream handle = nullptr;
  std::uint64_t thread = 0;   ///< of a handle that stands for another stream in each thread; else 0
  std::uint64_t capture = 0;  ///< 0: what is put there runs
  bool is_default = false;    ///< waits for all streams of its device that are not apart, and they for it
  bool is_apart = true;

  /// What is put on one of them may wait for what was put on the other before.
  bool meets(const StreamKey& other) const;
};

/// The calling thread's number in StreamKey::thread; no two threads of a process ever have the same.
std::uint64_t stream_thread();

/// Numbers of calls grow on each rank, and mean the same call on all. Not thread-safe.
class StreamBook {
 public:
  /// `ranks`: how many use this book; what all have passed is forgotten.
  explicit StreamBook(std::size_t ranks) : ranks_(ranks) {}
  /// The rank's next call goes to all of `places`. kInvalidUsage: it would stand behind a call that waits for it.
  Status enter(Rank rank, std::span<const StreamKey> places, std::uint64_t number);
  /// The same for a call that goes elsewhere and follows what is there.
  Status follow(Rank rank, const StreamKey& place, std::uint64_t number);

 private:
  struct Entry {
    Rank rank;
    StreamKey place;
    std::uint64_t number;
  };
  Status check(Rank rank, const StreamKey& place, std::uint64_t number) const;
  void put(Rank rank, const StreamKey& place, std::uint64_t number);
  void forget_passed();

  const std::size_t ranks_;
  std::vector<Entry> entries_;  // a rank's newest on each place
  std::map<Rank, std::uint64_t> newest_;
};

/// The same, one a communicator and process. Thread-safe.
class StreamLedger {
 public:
  explicit StreamLedger(std::size_t ranks) : book_(ranks) {}
  Status enter(Rank rank, std::span<const StreamKey> places, std::uint64_t number) {
    const MutexLock lock(mutex_);
    return book_.enter(rank, places, number);
  }
  Status follow(Rank rank, const StreamKey& place, std::uint64_t number) {
    const MutexLock lock(mutex_);
    return book_.follow(rank, place, number);
  }

 private:
  Mutex mutex_;
  StreamBook book_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti

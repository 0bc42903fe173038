// What the ranks of one communicator in this process have launched: whether a call is half launched, and whom a rank
// that shares its device with others waits for before it puts anything after its kernel.
#pragma once

#include <cstdint>
#include <map>
#include <thread>

#include "core/mutex.h"
#include "core/units.h"

namespace tutti {

/// One per DeviceFabric. All ranks launch the same calls in one order. Any thread, but each rank's functions are for
/// one thread at a time.
class LocalLaunches {
 public:
  LocalLaunches() = default;
  ~LocalLaunches();
  LocalLaunches(const LocalLaunches&) = delete;
  LocalLaunches& operator=(const LocalLaunches&) = delete;

  /// A rank of this process has come. All come before the first of them launches. The calling thread will make its
  /// calls, unless it is one of the library's.
  void add(Rank rank, int device);
  /// The rank launches no more calls.
  void leave(Rank rank);
  /// The rank launches its next call. If it is the first to do so, this blocks while a QuietMoment lasts.
  void begin(Rank rank);
  /// The launch has returned, whether it failed or not.
  void end(Rank rank);
  /// The calling thread makes the rank's calls.
  void note_thread(Rank rank);
  /// Whether there are other ranks on the rank's device.
  bool share_device(Rank rank) const;
  /// Returns a rank on the same device that has not launched what this rank has launched; kNoRank if there is none.
  Rank missing(Rank rank) const;
  /// Like missing(), for a thread that makes no call until it has the answer kNoRank. If it makes the calls of a
  /// missing rank, too, it must not wait, so that is the answer then.
  Rank missing_elsewhere(Rank rank) const;
  /// `missing` has not come for so long that the calling thread may have to make its call.
  void give_up(Rank missing) { note_thread(missing); }
  /// The rank's kernels have been told to end. Nobody waits for launches any more. Until all ranks have stopped or
  /// left, those of the others may wait for this one's, so that long a call counts as half launched. Any thread; it
  /// waits for nothing.
  void stop(Rank rank);

 private:
  struct Local {
    int device = -1;
    std::thread::id thread;  // the default value means that it is not known
    std::uint64_t begun = 0;
    std::uint64_t ended = 0;
    bool is_stopped = false;

    bool is_behind(const Local& other) const { return device == other.device && ended < other.ended; }
  };
  void count() TUTTI_REQUIRES(mutex_);

  Mutex opening_;  // held while a call is opened, which may take as long as a QuietMoment
  mutable Mutex mutex_;
  std::map<Rank, Local> ranks_ TUTTI_GUARDED_BY(mutex_);
  std::uint64_t opened_ TUTTI_GUARDED_BY(mutex_) = 0;  // calls that some rank has begun to launch
  std::uint64_t closed_ TUTTI_GUARDED_BY(mutex_) = 0;  // of these, those that all ranks have launched
  bool has_failed_ TUTTI_GUARDED_BY(mutex_) = false;   // some rank has stopped
  bool is_torn_ TUTTI_GUARDED_BY(mutex_) = false;      // and another one has not
};

}  // namespace tutti

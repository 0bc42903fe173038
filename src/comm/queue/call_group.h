// A call group is the calls of one thread that are collected between tuttiGroupStart and tuttiGroupEnd.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/call/arguments.h"
#include "comm/communicator.h"
#include "comm/queue/stream.h"
#include "comm/stream_wait.h"
#include "core/status.h"

namespace tutti {

/// The calling thread's open group. Everything is local to the thread.
class CallGroup {
 public:
  /// How deep the thread's calls of tuttiGroupStart are nested. If it is 0, calls run at once. It costs one
  /// thread-local load.
  static int depth() { return depth_; }
  static CallGroup& current();

  static void start() { ++depth_; }
  /// The outermost end runs what was collected, in call order within a communicator and concurrently across
  /// communicators. If there are joins or splits, which wait for other ranks, each join and the calls of each
  /// communicator have a thread. If a call of the group was refused, nothing runs and its error is returned. An
  /// exception is final for all communicators of the group.
  static Status end();

  /// Adds a checked call to the open group, or to the stream if no group is open.
  static Status run_later(std::shared_ptr<Communicator> comm, QueuedCall call, std::shared_ptr<Stream> stream);
  /// Adds a call that blocks until other ranks make it, too: a split of `parent`, or a join if that is nullptr.
  void add(std::shared_ptr<Communicator> parent, std::function<Status()> blocking);
  /// Remembers the first refused call.
  void refuse(const Status& status);

 private:
  struct Collected {
    std::shared_ptr<Communicator> comm;  // nullptr if this is a join
    QueuedCall call;
    std::shared_ptr<Stream> stream;    // nullptr if the call is done at the end of the group
    std::function<Status()> blocking;  // a join or split; if it is set, call and stream do not count
    Status status;

    /// Whether the call becomes a kernel on its CUDA stream.
    bool launches() const {
      return stream != nullptr && stream->is_cuda() && call.collective() &&
             comm->device_calls().launches(call.arguments());
    }
  };
  std::vector<std::shared_ptr<Communicator>> communicators() const;
  Status run();
  Status check_streams(bool on_threads) const;
  Status check_callback() const;
  Status merge_transfers();
  void pack_reductions();
  static bool fits(const Collected& earlier, const Collected& call);
  bool comes_later(std::size_t leader, std::size_t call) const;
  Status run_together();
  bool begin_ready(std::vector<std::unique_ptr<Operation>>* operations);
  void run_on_threads();
  static Status run_safely(Collected* call);
  static Status run_one(Collected* call);
  /// A call whose kernel is on its CUDA stream, and that has to be finished there.
  struct Launched {
    std::shared_ptr<Communicator> comm;
    std::shared_ptr<Stream> stream;
    Call call;
  };
  static Status enqueue(std::shared_ptr<Communicator> comm, QueuedCall call, std::shared_ptr<Stream> stream,
                        std::vector<Launched>* launched);
  static Status finish(Launched launched);
  static Status enqueue_alone(std::shared_ptr<Communicator> comm, QueuedCall call, std::shared_ptr<Stream> stream);

  static thread_local int depth_;
  std::vector<Collected> calls_;
  StreamWaits waits_;  // waits for earlier calls before held ones can begin
  Status refused_;
};

}  // namespace tutti

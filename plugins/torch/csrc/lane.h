// The order of one communicator's operations: one at a time, on a thread that waits for them or on the lane's own.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>

#include "work.h"

namespace tutti_torch {

/// Shared by the process group and its works; worker threads hold it too and end by themselves after close(). There is
/// one worker, and more when callbacks of a future wait for further works.
class Lane : public Carrier, public std::enable_shared_from_this<Lane> {
 public:
  /// `patience`: how long the worker leaves a new work to a thread that may come to wait for it.
  explicit Lane(std::chrono::microseconds patience) : patience_(patience) {}

  /// Queues `work`. With `blocking` it has been carried out on return, by this thread if nobody else was at it.
  void submit(const WorkPointer& work, bool blocking);
  /// Carries out what is queued until `work` is over.
  void help(TuttiWork& work) override;
  void give_up(TuttiWork&) override {}
  /// Carries out all that is queued. False: not within the limit, the rest stays.
  bool drain(std::chrono::milliseconds limit);
  /// Nothing is queued or being carried out.
  bool idle();
  /// Refuses new works, ends the queued ones with `reason`; the one under way goes on.
  void close(const std::string& reason);

 private:
  bool run_head(std::unique_lock<std::mutex>& lock, bool worker);
  void run_own(WorkPointer work, std::unique_lock<std::mutex>& lock, bool worker);
  void call_worker();
  void serve();

  const std::chrono::microseconds patience_;
  std::mutex mutex_;
  std::condition_variable for_worker_;
  std::condition_variable for_waiters_;
  std::deque<WorkPointer> queue_;
  bool running_ = false;
  int free_workers_ = 0;  // those that are not held up in callbacks of a future
  int sleeping_workers_ = 0;
  int waiters_ = 0;
  bool closed_ = false;
  std::string reason_;
};

}  // namespace tutti_torch

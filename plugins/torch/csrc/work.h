// An operation under way, as torch sees it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/version.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

/// e.g. 206 for torch 2.6: classes of c10d differ from version to version.
#define TUTTI_TORCH (TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR)

namespace tutti_torch {

class StreamEnd;
class TuttiWork;

/// Who carries works out: a lane, or the post office.
class Carrier {
 public:
  virtual ~Carrier() = default;
  /// Called by a thread that waits for `work` without a limit: may carry it out on that thread.
  virtual void help(TuttiWork& work) = 0;
  /// Called when a wait for `work` took longer than its limit: ends it with an error if nothing has begun yet.
  virtual void give_up(TuttiWork& work) = 0;
};

/// A call on streams of devices is over, in the words of this class, when it is there. Then its ends are to come:
/// wait() has the current stream wait for them, and the host too if it is given a timeout.
class TuttiWork : public c10d::Work {
 public:
  struct Description {
    int rank = 0;
    c10d::OpType type = c10d::OpType::UNKNOWN;
    std::string title;  // shown by torch's profiler, e.g. "tutti:all_reduce"
    std::vector<at::Tensor> inputs;
    std::vector<at::Tensor> outputs;
    std::uint64_t sequence = 0;
    std::chrono::milliseconds timeout{0};
  };
  TuttiWork(Description description, std::shared_ptr<Carrier> carrier);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override;
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  std::uint64_t getSequencenumber() const override { return sequence_; }

  /// What the carrier runs, once; set before the work is submitted.
  std::function<void()> body;
  /// Of a receive from any source.
  int source = -1;
  /// The thread that completes this must not be held up: the future's callbacks run on one of their own.
  bool callbacks_aside = false;

  /// The carrier's: the work is over. Wakes waiters, completes the future, calls observers. Once.
  void complete(std::exception_ptr error);
  /// The body's, or who completes it: the call ends there.
  void add_ends(const std::vector<std::shared_ptr<StreamEnd>>& ends);
  const std::vector<std::shared_ptr<StreamEnd>>& ends() const { return ends_; }
  /// Calls `observer` when the work is over, at once if it is.
  void observe(std::function<void()> observer);
  const std::vector<at::Tensor>& outputs() const { return outputs_; }
  bool over() const { return over_.load(std::memory_order_acquire); }
  std::chrono::milliseconds timeout() const { return timeout_; }
  /// Waits without helping. False: the limit passed (0: none).
  bool wait_idle(std::chrono::milliseconds limit);

 private:
  void finish_future(const c10::intrusive_ptr<c10::ivalue::Future>& future);
  void wait_for_ends(std::chrono::milliseconds limit);
  bool has_ended() const;

  std::vector<at::Tensor> outputs_;
  std::vector<std::shared_ptr<StreamEnd>> ends_;  // written before it is over, read after
  std::uint64_t sequence_;
  std::chrono::milliseconds timeout_;
  std::shared_ptr<Carrier> carrier_;
  std::atomic<bool> over_{false};  // pairs with itself: complete() after the results, over() before they are used
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::vector<std::function<void()>> observers_;
};

using WorkPointer = c10::intrusive_ptr<TuttiWork>;

}  // namespace tutti_torch

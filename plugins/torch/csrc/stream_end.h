// The end of a call that was put on a device's stream.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "device_streams.h"
#include "endpoint.h"

namespace tutti_torch {

/// A CUDA stream as Tutti knows it. Dropping it waits for nothing.
class TuttiStream {
 public:
  /// Raises if Tutti refuses the stream.
  explicit TuttiStream(const c10::Stream& stream);
  ~TuttiStream();
  TuttiStream(const TuttiStream&) = delete;
  TuttiStream& operator=(const TuttiStream&) = delete;
  tuttiStream_t get() const { return stream_; }

 private:
  tuttiStream_t stream_ = nullptr;
};

/// The end of calls on a stream. Other streams can be made to wait for it while the calls still run. Tutti tells the
/// host when it has come, and whether with an error. Any thread.
class StreamEnd {
 public:
  /// `caller`: the stream that was current at the call. `kept`: what the call uses there without its owner's doing;
  /// these tensors stay until a stream waits for the end.
  StreamEnd(const c10::Stream& stream, const c10::Stream& caller, std::vector<at::Tensor> kept);
  /// May come before the end does: the allocator is told of the stream that uses the tensors.
  ~StreamEnd();
  StreamEnd(const StreamEnd&) = delete;
  StreamEnd& operator=(const StreamEnd&) = delete;

  /// All that is on the stream now comes before the end. Once, before others use it.
  void record();
  /// Has Tutti tell when the calls on `calls` have ended, and how. `failed` is called from one of Tutti's threads if it
  /// is an error, also when the end is gone; it is destroyed there, so it owns nothing of Python's.
  void watch(const std::shared_ptr<TuttiStream>& calls, std::function<void()> failed);
  /// The calls have ended well, which the host knows by itself.
  void finish() { outcome_->finish(tuttiSuccess); }

  const c10::Stream& stream() const { return stream_; }
  /// All work that is put on `later` from now on runs after the end.
  void block(const c10::Stream& later);
  /// The same of the calling thread's current stream. Lets go of the tensors.
  void order_current();
  /// The calls have ended, and the stream has come to the end; or the calls have failed. In a graph's capture nothing
  /// runs, and the end counts as come once the calls are a part of the graph. After record().
  bool finished() const;
  /// Waits on the host. False: the limit passed.
  bool wait(std::chrono::milliseconds limit);
  /// nullptr while it has not come, or if all went well.
  std::exception_ptr error();

 private:
  /// How the calls ended. Tutti's callback shares it, and keeps nothing else of the end: the tensors may be Python's,
  /// and whoever frees those waits for Python's lock, which is not for Tutti's thread.
  struct Outcome {
    void finish(tuttiResult_t ended);

    std::mutex mutex;
    std::condition_variable changed;
    bool finished = false;
    tuttiResult_t result = tuttiSuccess;
    std::function<void()> failed;  // written before Tutti knows of it, then the callback's
  };
  bool has_come() const;
  void let_go(bool owner_is_ordered);

  const c10::Stream stream_;
  const c10::Stream caller_;
  c10::Event event_;
  bool is_captured_ = false;
  std::shared_ptr<TuttiStream> calls_;
  const std::shared_ptr<Outcome> outcome_ = std::make_shared<Outcome>();
  std::mutex mutex_;  // guards kept_
  std::vector<at::Tensor> kept_;
};

}  // namespace tutti_torch

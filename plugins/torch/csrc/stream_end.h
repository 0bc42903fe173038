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

/// Streams can be ordered behind it before it has come; the host hears of it, and of an error, from Tutti. Any thread.
class StreamEnd {
 public:
  /// `caller`: the stream that was current at the call. `kept`: what the call uses there without its owner's doing;
  /// these tensors stay until a stream is ordered behind the end.
  StreamEnd(const c10::Stream& stream, const c10::Stream& caller, std::vector<at::Tensor> kept);
  ~StreamEnd();
  StreamEnd(const StreamEnd&) = delete;
  StreamEnd& operator=(const StreamEnd&) = delete;

  /// All that is on the stream now comes before the end. Once, before others use it.
  void record();
  /// Has Tutti tell when the calls on `calls` have ended, and how. `end` is told from one of Tutti's threads, and
  /// `failed` is called there if it is an error.
  static void watch(const std::shared_ptr<StreamEnd>& end, const std::shared_ptr<TuttiStream>& calls,
                    std::function<void()> failed);
  /// The calls have ended well, which the host knows by itself.
  void finish() { finish(tuttiSuccess); }

  const c10::Stream& stream() const { return stream_; }
  /// What is put on `later` from now on comes after the end.
  void block(const c10::Stream& later);
  /// The same of the calling thread's current stream. Lets go of the tensors.
  void order_current();
  bool finished() const;
  /// Waits on the host. False: the limit passed.
  bool wait(std::chrono::milliseconds limit);
  /// nullptr while it has not come, or if all went well.
  std::exception_ptr error();

 private:
  void finish(tuttiResult_t result);
  void let_go(bool owner_is_ordered);

  const c10::Stream stream_;
  const c10::Stream caller_;
  c10::Event event_;
  std::shared_ptr<TuttiStream> calls_;
  std::function<void()> failed_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<at::Tensor> kept_;
  bool finished_ = false;
  tuttiResult_t result_ = tuttiSuccess;
};

}  // namespace tutti_torch

// One tuttiComm_t: its errors as C++ exceptions that torch knows, its end without waiting for anybody.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include <tutti/tutti.h>

namespace tutti_torch {

/// Throws what Python sees as ValueError (wrong arguments), NotImplementedError (unsupported) or DistBackendError, with
/// Tutti's sentence. `comm` may be null. `group_ranks` is as in Endpoint.
[[noreturn]] void raise(tuttiResult_t result, tuttiComm_t comm, const char* operation, int group_ranks);

class Endpoint {
 public:
  /// `group_ranks`: if it is not 0, each process of a group of so many has two ranks of the communicator, r and
  /// group_ranks + r. Errors then name both as r.
  explicit Endpoint(tuttiComm_t comm, int group_ranks = 0) : comm_(comm), group_ranks_(group_ranks) {}
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  /// Runs `call(comm)` and raises its error. One call at a time: the owner sees to it.
  template <class Call>
  void run(const char* operation, const Call& call) {
    if (aborted_.load(std::memory_order_acquire)) refuse(operation);
    const tuttiResult_t result = call(comm_);
    if (result != tuttiSuccess) [[unlikely]] {
      raise(result, aborted_.load(std::memory_order_acquire) ? nullptr : comm_, operation, group_ranks_);
    }
  }
  /// Where the next calls go; nullptr: they block. See OnStream.
  tuttiStream_t stream() const { return stream_; }
  /// For the calls that follow. Not beside run().
  void set_timeout(std::chrono::milliseconds timeout);
  /// From any thread: ends the calls under way and refuses further ones.
  void abort();
  /// Says goodbye without waiting and refuses further calls. Not beside run(). The destructor does it at the latest,
  /// but works that the program keeps may keep this.
  void leave();
  /// Or left.
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }
  /// First error of the communicator, tuttiSuccess while it is healthy.
  tuttiResult_t error() const;

 private:
  friend class OnStream;
  [[noreturn]] static void refuse(const char* operation);

  tuttiComm_t comm_;
  tuttiStream_t stream_ = nullptr;
  const int group_ranks_;
  std::chrono::milliseconds timeout_{-1};
  std::atomic<bool> aborted_{
      false};  // pairs with itself: abort() and leave() before they end comm_, run() before a call
};

/// While it lives, the endpoint's calls go on a stream. Not beside run().
class OnStream {
 public:
  OnStream(Endpoint& endpoint, tuttiStream_t stream) : endpoint_(endpoint) { endpoint.stream_ = stream; }
  ~OnStream() { endpoint_.stream_ = nullptr; }
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;

 private:
  Endpoint& endpoint_;
};

/// Frees a stream when its work has ended, for which a thread waits.
void say_goodbye(tuttiStream_t stream);
/// While it is held, wait_for_goodbyes() waits.
std::shared_ptr<void> owe_goodbye();
/// Waits until the goodbyes that are on their way are said, at most so long. False: some are not.
bool wait_for_goodbyes(std::chrono::milliseconds limit);

}  // namespace tutti_torch

// What the C API's opaque pointers point to, and the frame that every C function runs in.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <string>

#include "comm/api/last_error.h"
#include "comm/communicator.h"
#include "comm/membership/hub.h"
#include "comm/queue/stream.h"
#include "core/log.h"
#include "core/mutex.h"
#include "core/no_cancel.h"
#include "tutti/tutti.h"

inline constexpr std::uint32_t kCommMagic = 0x74636f6d;
inline constexpr std::uint32_t kStreamMagic = 0x74737472;
/// An aborted communicator's handle keeps this value: its memory stays, so that a late call is refused, not undefined.
inline constexpr std::uint32_t kAbortedMagic = 0x74646561;

/// The memory of a handle is never freed. It is used again for a new communicator, but only after many others: a call
/// that began before another thread destroyed or aborted the communicator can look at it without harm.
struct tuttiComm {
  std::atomic<std::uint32_t> magic{0};  // relaxed: it reveals misuse, and orders nothing
  /// An abort resets it. The calls that are allowed at any time copy it under the mutex.
  std::shared_ptr<tutti::Communicator> comm;
  tutti::Mutex mutex;
  /// It is 1 while the caller's thread is in a call. The release at the call's end pairs with the acquires in
  /// tuttiCommAbort and release_aborted().
  std::atomic<std::uint32_t> busy{0};
  tuttiComm_t next_retired = nullptr;  // links the lists of retired and of aborted handles
};

struct tuttiStream {
  std::uint32_t magic = kStreamMagic;
  std::shared_ptr<tutti::Stream> stream;
};

namespace tutti {

/// A handle of a new communicator. Any thread.
tuttiComm_t make_handle(std::shared_ptr<Communicator> comm);
/// Ends the handle of a communicator that is destroyed. Calls on it are refused from now on. Returns false if an abort
/// has ended it before.
bool retire_handle(tuttiComm_t comm);
/// Lets go of the communicator of a handle that was aborted, unless a call on it is in progress, which does so at its
/// end. Operations on streams keep the communicator for themselves. Any thread.
void release_aborted(tuttiComm_t comm);
/// Remembers the handle of a communicator that was aborted. It is never used again, because threads that have not heard
/// of the abort may still pass it: those calls are refused. Takes no memory.
void keep_aborted_handle(tuttiComm_t comm);

/// Ok, or why this handle cannot be used.
inline Status check_handle(tuttiComm_t comm) {
  if (comm == nullptr) return fail(Code::kInvalidArgument, "the communicator is NULL");
  const std::uint32_t magic = comm->magic.load(std::memory_order_relaxed);
  if (magic == kAbortedMagic) return fail(Code::kInvalidUsage, "the communicator was aborted");
  if (magic != kCommMagic) return fail(Code::kInvalidArgument, "this is not a communicator");
  return hub_usable() ? Status{} : hub_refusal();
}

inline Status check_handle(tuttiStream_t stream) {
  if (stream == nullptr) return fail(Code::kInvalidArgument, "the stream is NULL");
  if (stream->magic != kStreamMagic) return fail(Code::kInvalidArgument, "this is not a stream");
  TUTTI_TRY(hub_refusal());
  if (stream->stream->is_forked())
    return fail(Code::kInvalidUsage, "this process was forked after the stream was made");
  return {};
}

inline Status require(const void* pointer, const char* name) {
  return pointer != nullptr ? Status{} : fail(Code::kInvalidArgument, "{} is NULL", name);
}

/// Marks that the caller's thread is in a call on this handle, so that an abort keeps the communicator until the call
/// has ended. If the abort does not wait so long, the end of the call lets go of the communicator.
class CallGuard {
 public:
  CallGuard() = default;
  ~CallGuard() { leave(); }
  CallGuard(const CallGuard&) = delete;
  CallGuard& operator=(const CallGuard&) = delete;

  /// Ok, or why this handle cannot be used.
  Status enter(tuttiComm_t comm) {
    TUTTI_TRY(check_handle(comm));
    if (comm->busy.load(std::memory_order_relaxed) != 0) [[unlikely]]
      return fail(Code::kInvalidUsage, "another call is in progress on this communicator: it takes one at a time");
    comm_ = comm;
    comm->busy.store(1, std::memory_order_relaxed);
    // An abort marks the handle, waits until stores are visible, and then looks at `busy`. So if this call does not see
    // the mark, the abort sees `busy`.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (comm->magic.load(std::memory_order_relaxed) == kCommMagic) [[likely]]
      return {};
    return check_handle(comm);
  }

 private:
  void leave() {
    if (comm_ == nullptr) return;
    comm_->busy.store(0, std::memory_order_release);
    // An abort that still sees `busy` has marked the handle long before, so the mark is seen here.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (comm_->magic.load(std::memory_order_relaxed) == kAbortedMagic) [[unlikely]]
      release_aborted(comm_);
  }
  tuttiComm_t comm_ = nullptr;
};

/// For calls that are allowed at any time, also while another thread aborts. The communicator stays for as long as it
/// is held.
inline Status hold(tuttiComm_t comm, std::shared_ptr<Communicator>* held) {
  TUTTI_TRY(check_handle(comm));
  const MutexLock lock(comm->mutex);
  *held = comm->comm;
  return *held != nullptr ? Status{} : fail(Code::kInvalidUsage, "the communicator was aborted");
}

/// Turns a status into the C result, and remembers and logs what the caller has to know.
tuttiResult_t report(const Status& status, const void* object);

/// Runs a body that returns Status. No exception leaves the library, although memory may run out anywhere. The body has
/// no cancellation points, or uses NoCancel by itself.
template <class Body>
tuttiResult_t guard_quick(const void* object, const Body& body) noexcept {
  try {
    const Status status = body();
    if (status.ok()) [[likely]]
      return tuttiSuccess;
    return report(status, object);
  } catch (...) {
    return static_cast<tuttiResult_t>(remember_error(what_was_thrown("a call"), object));
  }
}

/// Does what guard_quick() does, for a body that may have cancellation points.
template <class Body>
tuttiResult_t guard(const void* object, const Body& body) noexcept {
  const NoCancel no_cancel;
  return guard_quick(object, body);
}

}  // namespace tutti

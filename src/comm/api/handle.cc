#include "comm/api/handle.h"

#include <utility>

namespace tutti {
namespace {

/// A retired handle is used again only when so many others have been retired after it.
constexpr std::size_t kRetired = 1024;

/// It is never destroyed, because threads may look at handles while the process ends.
struct Retired {
  Mutex mutex;
  tuttiComm_t oldest TUTTI_GUARDED_BY(mutex) = nullptr;
  tuttiComm_t newest TUTTI_GUARDED_BY(mutex) = nullptr;
  std::size_t count TUTTI_GUARDED_BY(mutex) = 0;
  tuttiComm_t newest_aborted TUTTI_GUARDED_BY(mutex) = nullptr;

  void add(tuttiComm_t handle) TUTTI_REQUIRES(mutex) {
    (oldest == nullptr ? oldest : newest->next_retired) = handle;
    newest = handle;
    ++count;
  }
  tuttiComm_t take() TUTTI_REQUIRES(mutex) {
    --count;
    return std::exchange(oldest, std::exchange(oldest->next_retired, nullptr));
  }
  static Retired& get() {
    static Retired* const instance = new Retired;
    return *instance;
  }
};

tuttiComm_t any_handle() {
  {
    const MutexLock lock(Retired::get().mutex);
    if (Retired::get().count > kRetired) return Retired::get().take();
  }
  return new tuttiComm;
}

}  // namespace

tuttiComm_t make_handle(std::shared_ptr<Communicator> comm) {
  const tuttiComm_t handle = any_handle();
  const MutexLock lock(handle->mutex);
  handle->comm = std::move(comm);
  handle->magic.store(kCommMagic, std::memory_order_relaxed);
  return handle;
}

bool retire_handle(tuttiComm_t comm) {
  std::uint32_t expected = kCommMagic;
  if (!comm->magic.compare_exchange_strong(expected, 0, std::memory_order_relaxed)) return false;
  {
    const MutexLock lock(comm->mutex);
    comm->comm.reset();
  }
  const MutexLock lock(Retired::get().mutex);
  Retired::get().add(comm);
  return true;
}

void release_aborted(tuttiComm_t comm) {
  const NoCancel no_cancel;
  std::shared_ptr<Communicator> last;  // is destroyed without the lock
  const MutexLock lock(comm->mutex);
  if (comm->busy.load(std::memory_order_acquire) == 0) last = std::move(comm->comm);
}

void keep_aborted_handle(tuttiComm_t comm) {
  const MutexLock lock(Retired::get().mutex);
  comm->next_retired = std::exchange(Retired::get().newest_aborted, comm);
}

tuttiResult_t report(const Status& status, const void* object) {
  const NoCancel no_cancel;
  const bool refused = status.code() == Code::kInvalidArgument || status.code() == Code::kInvalidUsage ||
                       status.code() == Code::kUnsupported;
  // A final failure was logged by the communicator, once; a refused call is logged here.
  if (refused && !hub_forked()) log(LogLevel::kWarn, {}, "{}: {}", name_of(status.code()), status.text());
  // A program that ends because of a failure leaves the reason in the log. Work in progress is not a failure.
  if (status.code() != Code::kInProgress && !hub_forked()) log_drain(kLogTimeoutOfCalls);
  return static_cast<tuttiResult_t>(remember_error(status, object));
}

}  // namespace tutti

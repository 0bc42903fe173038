#include "comm/handle.h"

#include <deque>
#include <utility>

namespace tutti {
namespace {

/// So many handles have been retired since before one is used again.
constexpr std::size_t kRetired = 1024;

/// Never destroyed: threads may look at handles while the process ends.
struct Retired {
  Mutex mutex;
  std::deque<tuttiComm_t> handles TUTTI_GUARDED_BY(mutex);
  static Retired& get() {
    static Retired* const instance = new Retired;
    return *instance;
  }
};

tuttiComm_t any_handle() {
  {
    const MutexLock lock(Retired::get().mutex);
    std::deque<tuttiComm_t>& handles = Retired::get().handles;
    if (handles.size() > kRetired) {
      const tuttiComm_t oldest = handles.front();
      handles.pop_front();
      return oldest;
    }
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
  Retired::get().handles.push_back(comm);
  return true;
}

}  // namespace tutti

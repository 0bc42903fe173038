#include "communicator_handle.h"

#include <mutex>
#include <utility>
#include <vector>

#include "errors.h"
#include "unlocked.h"

namespace tutti_python {
namespace {

std::mutex open_mutex;
std::vector<std::shared_ptr<CommunicatorHandle>> open_handles;  // guarded by open_mutex; in the order of their joins

}  // namespace

std::shared_ptr<CommunicatorHandle> CommunicatorHandle::open(tuttiComm_t comm) {
  const std::shared_ptr<CommunicatorHandle> handle(new CommunicatorHandle(comm));
  const std::lock_guard lock(open_mutex);
  std::erase_if(open_handles, [](const auto& other) { return other->comm_ == nullptr; });
  open_handles.push_back(handle);
  return handle;
}

tuttiComm_t CommunicatorHandle::get() const {
  const tuttiComm_t comm = comm_;
  if (comm == nullptr || is_closing_) raise(tuttiInvalidUsage, "the communicator has been closed");
  return comm;
}

tuttiResult_t CommunicatorHandle::close() {
  const tuttiComm_t comm = comm_;
  if (comm == nullptr || is_closing_.exchange(true)) return tuttiSuccess;
  tuttiResult_t result;
  {
    const Unlocked unlocked;
    result = tuttiCommDestroy(comm);
  }
  if (result != tuttiInvalidUsage) comm_ = nullptr;
  is_closing_ = false;
  return result;
}

void CommunicatorHandle::abort() {
  const tuttiComm_t comm = comm_.exchange(nullptr);
  if (comm == nullptr) return;
  const Unlocked unlocked;
  tuttiCommAbort(comm);
}

void close_all() {
  std::vector<std::shared_ptr<CommunicatorHandle>> handles;
  {
    const std::lock_guard lock(open_mutex);
    handles = std::exchange(open_handles, {});
  }
  for (auto handle = handles.rbegin(); handle != handles.rend(); ++handle) {
    (*handle)->close();
    (*handle)->abort();  // if another thread is using or closing it; else it is gone, and nothing happens
  }
}

}  // namespace tutti_python

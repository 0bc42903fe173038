// The C functions for memory.
#include "comm/api/handle.h"
#include "comm/device/device_side.h"
#include "core/memory.h"
#include "transport/device/device_allocation.h"

using tutti::Bytes;
using tutti::Code;
using tutti::Status;

extern "C" {

tuttiResult_t tuttiMemAlloc(void** ptr, size_t bytes) {
  return tutti::guard(nullptr, [&]() -> Status {
    TUTTI_TRY(tutti::require(ptr, "ptr"));
    return tutti::allocate_host(Bytes{bytes}, ptr);
  });
}

tuttiResult_t tuttiMemFree(void* ptr) {
  return tutti::guard(nullptr, [&] {
    auto& on_devices = tutti::DeviceAllocations::get();
    return on_devices.holds(ptr) ? on_devices.free(ptr) : tutti::free_host(ptr);
  });
}

tuttiResult_t tuttiMemAllocDevice(void** ptr, size_t bytes, int device) {
  return tutti::guard(nullptr, [&]() -> Status {
    TUTTI_TRY(tutti::require(ptr, "ptr"));
    return tutti::DeviceAllocations::get().allocate(Bytes{bytes}, device, ptr);
  });
}

tuttiResult_t tuttiCommRegister(tuttiComm_t comm, void* ptr, size_t bytes, void** handle) {
  return tutti::guard(comm, [&]() -> Status {
    tutti::CallGuard call_guard;
    TUTTI_TRY(call_guard.enter(comm));
    TUTTI_TRY(tutti::require(handle, "handle"));
    if (bytes != 0) TUTTI_TRY(tutti::require(ptr, "ptr"));
    *handle = reinterpret_cast<void*>(comm->comm->registered().add(ptr, bytes));
    return {};
  });
}

tuttiResult_t tuttiCommDeregister(tuttiComm_t comm, void* handle) {
  return tutti::guard(comm, [&]() -> Status {
    tutti::CallGuard call_guard;
    TUTTI_TRY(call_guard.enter(comm));
    if (comm->comm->deregister(reinterpret_cast<std::uintptr_t>(handle))) return {};
    return tutti::fail(Code::kInvalidArgument, "the handle was not given by tuttiCommRegister, or was given back");
  });
}

}  // extern "C"

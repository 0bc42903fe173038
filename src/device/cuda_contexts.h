// The devices' contexts, by the driver's own interface. It is used because most calls of the runtime begin to use the
// first device if the thread has chosen no other one, which takes hundreds of megabytes of the device and waits for all
// its kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/mutex.h"
#include "core/status.h"

struct CUctx_st;
struct CUstream_st;

namespace tutti {

/// One per process. Thread-safe.
class CudaContexts {
 public:
  using Context = CUctx_st*;

  static CudaContexts& get();

  /// Pushes the context that the runtime has for the device onto the calling thread's stack of contexts.
  Status enter(int device);
  /// If the thread has no context, pushes any that enter() has ever pushed. Returns false if nothing was pushed.
  bool enter_any();
  /// Pops what enter() or enter_any() pushed.
  void leave();
  /// The calling thread's device, or -1 if the process has not begun to use it. Never begins to.
  int current_device();

  /// The device that a stream was made for; -1 if that is not known. Not for the handles that stand for several
  /// streams.
  int device_of(CUstream_st* stream);

  struct Place {
    bool is_managed = false;
    int device = -1;  ///< -1: memory of the host
  };
  struct Allocation {
    std::uintptr_t begin = 0;
    std::size_t bytes = 0;
    std::uint64_t id = 0;
    int device = -1;          ///< -1: not memory of a device
    bool has_handle = false;  ///< cudaIpcGetMemHandle takes it, as it is neither a pool's nor mapped piece by piece
  };
  /// Where a pointer points. Begins to use no device.
  Place place_of(const void* memory);
  /// Also finds the allocation that the memory is a part of, if it is a device's.
  Place place_of(const void* memory, Allocation* allocation);

 private:
  CudaContexts();
  Status retain(int device, Context* context);
  bool is_active(int device) const;

  Status missing_;  // what the driver does not offer
  // The driver's functions; see cuda.h.
  int (*retain_)(Context*, int) = nullptr;
  int (*state_)(int, unsigned*, int*) = nullptr;
  int (*push_)(Context) = nullptr;
  int (*pop_)(Context*) = nullptr;
  int (*current_)(Context*) = nullptr;
  int (*device_)(int*) = nullptr;
  int (*of_stream_)(CUstream_st*, Context*) = nullptr;
  int (*attributes_)(unsigned, int*, void**, unsigned long long) = nullptr;

  Mutex mutex_;
  std::vector<Context> known_ TUTTI_GUARDED_BY(mutex_);  // by device; held until the process ends
};

/// The calling thread works on a device for a scope.
class OnDevice {
 public:
  explicit OnDevice(int device) : status_(CudaContexts::get().enter(device)) {}
  ~OnDevice() {
    if (status_.ok()) CudaContexts::get().leave();
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  const Status& status() const { return status_; }

 private:
  const Status status_;
};

/// For calls on a stream or an event: CUDA knows its device, but the calling thread needs some context. It has one for
/// a scope.
class OnAnyDevice {
 public:
  OnAnyDevice() : entered_(CudaContexts::get().enter_any()) {}
  ~OnAnyDevice() {
    if (entered_) CudaContexts::get().leave();
  }
  OnAnyDevice(const OnAnyDevice&) = delete;
  OnAnyDevice& operator=(const OnAnyDevice&) = delete;

 private:
  const bool entered_;
};

}  // namespace tutti

// The devices' contexts, by the driver's own interface: the runtime begins to use a device, which takes hundreds of
// megabytes of it and waits for all its kernels, in most calls of a thread that has not chosen another one.
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

  /// Makes the context that the runtime has for the device the calling thread's, on top of what it has.
  Status enter(int device);
  /// The same for any context that enter() has had, where the thread has none. False: it is as it was.
  bool enter_any();
  /// Undoes one of the two.
  void leave();
  /// The calling thread's device where the process has begun to use it; -1: it has not. Begins nothing.
  int current_device();

  /// The device that a stream was made for; -1: not known. Not for the handles that stand for several streams.
  int device_of(CUstream_st* stream);

  struct Place {
    bool is_managed = false;
    int device = -1;  ///< -1: memory of the host
  };
  /// Where a pointer points. Begins nothing.
  Place place_of(const void* memory);

  struct Allocation {
    std::uintptr_t begin = 0;
    std::size_t bytes = 0;
    std::uint64_t id = 0;
    int device = -1;          ///< -1: not memory of a device
    bool has_handle = false;  ///< cudaIpcGetMemHandle takes it: it is neither a pool's nor mapped piece by piece
  };
  /// What it is a part of. Begins nothing.
  Allocation allocation_of(const void* memory);

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

/// For what belongs to a stream or an event, whose device is known: the calling thread needs some context.
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

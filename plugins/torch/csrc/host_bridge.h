// What is done about tensors on a GPU. Without CUDA in torch all of it is empty.
//
// The library's streams for device buffers are not there yet (tuttiStreamFromCuda: tuttiUnsupported), so a tensor on a
// GPU travels through pinned host memory: the thread that carries the operation out copies in and out on a stream of
// torch's pool, ordered behind the stream that was current at the call, and waits for the copy out: a work that is over
// has its results on the GPU.
#pragma once

#include <memory>
#include <vector>

#include <ATen/ATen.h>

namespace tutti_torch {

/// Whether tensors on an NVIDIA GPU can be read at all.
constexpr bool reaches_cuda() {
#ifdef TUTTI_TORCH_CUDA
  return true;
#else
  return false;
#endif
}

/// Order behind the work queued on the current streams of `tensors`' devices, taken at construction.
class DeviceOrder {
 public:
  explicit DeviceOrder(const std::vector<at::Tensor>& tensors);
  /// Makes this device's side stream wait for that point.
  void enter() const;

 private:
  struct Points;
  std::shared_ptr<Points> points_;
};

/// While it lives, the side streams of the devices of `tensors` are current.
class StreamScope {
 public:
  explicit StreamScope(const std::vector<at::Tensor>& tensors);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  struct Guards;
  std::unique_ptr<Guards> guards_;
};

/// Waits, on the host, for the side streams of the devices of `tensors`.
void drain_side_streams(const std::vector<at::Tensor>& tensors);
/// Orders the current streams of the devices of `tensors` behind their side streams.
void order_current_streams(const std::vector<at::Tensor>& tensors);

}  // namespace tutti_torch

#include "cuda_bridge.h"

#include <map>
#include <mutex>

#ifdef TUTTI_TORCH_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace tutti_torch {

#ifdef TUTTI_TORCH_CUDA
namespace {

/// The side stream of a device, one a process: copies of all groups run in the order of their operations.
c10::cuda::CUDAStream side_stream(c10::DeviceIndex device) {
  static std::mutex mutex;
  static auto* streams = new std::map<c10::DeviceIndex, c10::cuda::CUDAStream>;  // as torch's pool: never freed
  const std::lock_guard<std::mutex> lock(mutex);
  auto found = streams->find(device);
  if (found == streams->end())
    found = streams->emplace(device, c10::cuda::getStreamFromPool(/*isHighPriority=*/true, device)).first;
  return found->second;
}

std::vector<c10::DeviceIndex> devices_of(const std::vector<at::Tensor>& tensors) {
  std::vector<c10::DeviceIndex> devices;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined() || !tensor.is_cuda()) continue;
    if (std::find(devices.begin(), devices.end(), tensor.get_device()) == devices.end())
      devices.push_back(static_cast<c10::DeviceIndex>(tensor.get_device()));
  }
  return devices;
}

}  // namespace

struct DeviceOrder::Points {
  std::vector<std::pair<c10::DeviceIndex, at::cuda::CUDAEvent>> events;
};

DeviceOrder::DeviceOrder(const std::vector<at::Tensor>& tensors) {
  const std::vector<c10::DeviceIndex> devices = devices_of(tensors);
  if (devices.empty()) return;
  points_ = std::make_shared<Points>();
  for (const c10::DeviceIndex device : devices) {
    const c10::cuda::CUDAGuard guard(device);
    at::cuda::CUDAEvent event;
    event.record(c10::cuda::getCurrentCUDAStream(device));
    points_->events.emplace_back(device, std::move(event));
  }
}

void DeviceOrder::enter() const {
  if (!points_) return;
  for (auto& point : points_->events) point.second.block(side_stream(point.first));
}

struct StreamScope::Guards {
  explicit Guards(const std::vector<c10::cuda::CUDAStream>& streams) : guard(streams) {}
  c10::cuda::CUDAMultiStreamGuard guard;
};

StreamScope::StreamScope(const std::vector<at::Tensor>& tensors) {
  std::vector<c10::cuda::CUDAStream> streams;
  for (const c10::DeviceIndex device : devices_of(tensors)) streams.push_back(side_stream(device));
  if (!streams.empty()) guards_ = std::make_unique<Guards>(streams);
}

void drain_side_streams(const std::vector<at::Tensor>& tensors) {
  for (const c10::DeviceIndex device : devices_of(tensors)) side_stream(device).synchronize();
}

void order_current_streams(const std::vector<at::Tensor>& tensors) {
  for (const c10::DeviceIndex device : devices_of(tensors)) {
    const c10::cuda::CUDAGuard guard(device);
    at::cuda::CUDAEvent event;
    event.record(side_stream(device));
    event.block(c10::cuda::getCurrentCUDAStream(device));
  }
}

#else

struct DeviceOrder::Points {};
DeviceOrder::DeviceOrder(const std::vector<at::Tensor>&) {}
void DeviceOrder::enter() const {}
struct StreamScope::Guards {};
StreamScope::StreamScope(const std::vector<at::Tensor>&) {}
void drain_side_streams(const std::vector<at::Tensor>&) {}
void order_current_streams(const std::vector<at::Tensor>&) {}

#endif

StreamScope::~StreamScope() = default;

}  // namespace tutti_torch

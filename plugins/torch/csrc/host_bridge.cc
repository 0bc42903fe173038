#include "host_bridge.h"

#include <map>
#include <mutex>

namespace tutti_torch {
namespace {

/// The side stream of a device, one a process: copies of all groups run in the order of their operations.
c10::Stream side_stream(const c10::Device& device) {
  static std::mutex mutex;
  static auto* streams = new std::map<std::string, c10::Stream>;  // as torch's pool: never freed
  const std::lock_guard<std::mutex> lock(mutex);
  const std::string name = device.str();
  const auto found = streams->find(name);
  return found != streams->end() ? found->second : streams->emplace(name, pool_stream(device)).first->second;
}

}  // namespace

DeviceOrder::DeviceOrder(const std::vector<c10::Device>& devices) {
  for (const c10::Device& device : devices) {
    if (device.is_cpu()) continue;
    if (!points_) points_ = std::make_shared<std::vector<std::pair<c10::Device, c10::Event>>>();
    points_->emplace_back(device, c10::Event(device.type()));
    points_->back().second.record(current_stream(device));
  }
}

void DeviceOrder::enter() const {
  if (!points_) return;
  for (const auto& [device, event] : *points_) event.block(side_stream(device));
}

void DeviceOrder::wait() const {
  if (!points_) return;
  for (const auto& [device, event] : *points_) event.synchronize();
}

SideStreamScope::SideStreamScope(const c10::Device& device) {
  if (device.is_cpu()) return;
  stream_ = side_stream(device);
  guard_.reset_stream(*stream_);
}

void SideStreamScope::drain() const {
  if (stream_) stream_->synchronize();
}

}  // namespace tutti_torch

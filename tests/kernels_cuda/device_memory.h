// Memory of the GPU that shows what is written outside of it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace tutti {

/// Why there is no GPU to test with; empty if there is one.
inline std::string why_no_gpu() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) return std::string("no GPU: ") + cudaGetErrorString(error);
  return count > 0 ? "" : "no GPU";
}

/// `bytes` bytes of device memory, `offset` beyond a multiple of 256, poisoned as the guards around them are.
class DeviceMemory {
 public:
  DeviceMemory(std::size_t offset, std::size_t bytes) : start_(kGuard + offset), bytes_(bytes) {
    failed_ = cudaMalloc(&base_, start_ + bytes_ + kGuard) != cudaSuccess ||
              cudaMemset(base_, kPoison, start_ + bytes_ + kGuard) != cudaSuccess;
  }
  DeviceMemory(DeviceMemory&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)),
        start_(other.start_),
        bytes_(other.bytes_),
        failed_(other.failed_) {}
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() { cudaFree(base_); }

  bool failed() const { return failed_; }
  void* data() const { return static_cast<unsigned char*>(base_) + start_; }
  void fill(const unsigned char* from) {
    failed_ = failed_ || cudaMemcpy(data(), from, bytes_, cudaMemcpyHostToDevice) != cudaSuccess;
  }
  /// Its bytes, when all work on the device is done; empty: that failed, or a guard was written.
  std::vector<unsigned char> read() const {
    std::vector<unsigned char> all(start_ + bytes_ + kGuard);
    if (cudaDeviceSynchronize() != cudaSuccess) return {};
    if (cudaMemcpy(all.data(), base_, all.size(), cudaMemcpyDeviceToHost) != cudaSuccess) return {};
    for (std::size_t i = 0; i < all.size(); ++i) {
      if ((i < start_ || i >= start_ + bytes_) && all[i] != kPoison) return {};
    }
    return {all.begin() + static_cast<std::ptrdiff_t>(start_),
            all.begin() + static_cast<std::ptrdiff_t>(start_ + bytes_)};
  }

 private:
  static constexpr std::size_t kGuard = 256;
  static constexpr int kPoison = 0xa5;

  void* base_ = nullptr;
  std::size_t start_;
  std::size_t bytes_;
  bool failed_ = false;
};

}  // namespace tutti

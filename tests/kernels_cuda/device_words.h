// Words in memory that the library allocates on a GPU.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <cstdint>
#include <vector>

namespace tutti::test {

using Words = std::vector<std::uint32_t>;

/// A rank's memory on its device, for a scope. To allocate and to free may wait for all kernels of the process, also
/// for those that wait for this rank: both happen only while no rank of the process is in a call.
class DeviceWords {
 public:
  DeviceWords(std::size_t count, int device) : count_(count) {
    EXPECT_EQ(tuttiMemAllocDevice(&memory_, count * sizeof(std::uint32_t), device), tuttiSuccess);
  }
  ~DeviceWords() { EXPECT_EQ(tuttiMemFree(memory_), tuttiSuccess); }
  DeviceWords(const DeviceWords&) = delete;
  DeviceWords& operator=(const DeviceWords&) = delete;

  std::uint32_t* data() const { return static_cast<std::uint32_t*>(memory_); }
  /// Copies to the first words.
  void write(const Words& words) {
    ASSERT_LE(words.size(), count_);
    EXPECT_EQ(cudaMemcpy(memory_, words.data(), words.size() * sizeof(std::uint32_t), cudaMemcpyDefault), cudaSuccess);
  }
  /// The first `count` words.
  Words read(std::size_t count) const {
    Words words(count);
    EXPECT_LE(count, count_);
    EXPECT_EQ(cudaMemcpy(words.data(), memory_, count * sizeof(std::uint32_t), cudaMemcpyDefault), cudaSuccess);
    return words;
  }

 private:
  std::size_t count_;
  void* memory_ = nullptr;
};

}  // namespace tutti::test

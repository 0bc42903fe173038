// Words in memory that the library allocates on a GPU.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <cstdint>
#include <vector>

namespace tutti::test {

using Words = std::vector<std::uint32_t>;

/// A rank's memory on its device, for a scope.
class DeviceWords {
 public:
  DeviceWords(std::size_t count, int device) : count_(count) {
    EXPECT_EQ(tuttiMemAllocDevice(&memory_, count * sizeof(std::uint32_t), device), tuttiSuccess);
  }
  DeviceWords(const Words& words, int device) : DeviceWords(words.size(), device) { write(words); }
  ~DeviceWords() { EXPECT_EQ(tuttiMemFree(memory_), tuttiSuccess); }
  DeviceWords(const DeviceWords&) = delete;
  DeviceWords& operator=(const DeviceWords&) = delete;

  std::uint32_t* data() const { return static_cast<std::uint32_t*>(memory_); }
  void write(const Words& words) {
    EXPECT_EQ(cudaMemcpy(memory_, words.data(), count_ * sizeof(std::uint32_t), cudaMemcpyDefault), cudaSuccess);
  }
  Words read() const {
    Words words(count_);
    EXPECT_EQ(cudaMemcpy(words.data(), memory_, count_ * sizeof(std::uint32_t), cudaMemcpyDefault), cudaSuccess);
    return words;
  }

 private:
  std::size_t count_;
  void* memory_ = nullptr;
};

}  // namespace tutti::test

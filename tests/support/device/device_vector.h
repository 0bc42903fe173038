// Memory of a device, for tests: of the stand-in, so that the host reads and writes it too.
#pragma once

#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <cstddef>

#include "support/device/stand_in_driver.h"

namespace tutti::test {

template <class T>
class DeviceMemory {
 public:
  DeviceMemory(std::size_t count, T value, int device = 0) : count_(count) {
    const StandInDriver::Early early;
    EXPECT_EQ(tuttiMemAllocDevice(reinterpret_cast<void**>(&data_), count * sizeof(T), device), tuttiSuccess);
    fill(value);
  }
  ~DeviceMemory() {
    const StandInDriver::Early early;
    EXPECT_EQ(tuttiMemFree(data_), tuttiSuccess);
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  T* data() { return data_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  void fill(T value) { std::fill_n(data_, count_, value); }
  bool is(T value) const {
    return std::all_of(data_, data_ + count_, [value](T one) { return one == value; });
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

using DeviceVector = DeviceMemory<float>;

}  // namespace tutti::test

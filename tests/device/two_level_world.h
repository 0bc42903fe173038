// Hosts of tests at two levels: processes that call themselves hosts.
#pragma once

#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "device/device_processes.h"

namespace tutti::test {

/// `processes` neighbours share a host.
inline void name_host(int process, int processes = 1) {
  ::setenv("TUTTI_HOSTID", ("host " + std::to_string(process / processes)).c_str(), 1);
}

/// Device memory for a scope.
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count, int device = stand_in().current_device()) : count_(count) {
    EXPECT_EQ(tuttiMemAllocDevice(reinterpret_cast<void**>(&data_), count * sizeof(float), device), tuttiSuccess);
  }
  DeviceArray(const std::vector<float>& values) : DeviceArray(values.size()) {
    std::copy(values.begin(), values.end(), data_);
  }
  ~DeviceArray() { EXPECT_EQ(tuttiMemFree(data_), tuttiSuccess); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  float* data() { return data_; }
  std::vector<float> get() const { return std::vector<float>(data_, data_ + count_); }
  tuttiResult_t reduce(tuttiComm_t comm, tuttiStream_t stream = nullptr) {
    return tuttiAllReduce(data_, data_, count_, tuttiFloat32, tuttiSum, comm, stream);
  }

 private:
  float* data_ = nullptr;
  std::size_t count_;
};

}  // namespace tutti::test

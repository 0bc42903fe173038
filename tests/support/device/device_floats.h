// Floats in device memory, and what ranks in several processes do with them until one fails.
#pragma once

#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <vector>

#include "support/device/device_processes.h"
#include "support/device/stand_in_driver.h"

namespace tutti::test {

/// Device memory for a scope.
class DeviceFloats {
 public:
  explicit DeviceFloats(std::size_t count, int device = stand_in().current_device()) : count_(count) {
    EXPECT_EQ(tuttiMemAllocDevice(reinterpret_cast<void**>(&data_), count * sizeof(float), device), tuttiSuccess);
    fill(1.0f);
  }
  explicit DeviceFloats(const std::vector<float>& values) : DeviceFloats(values.size()) {
    std::copy(values.begin(), values.end(), data_);
  }
  ~DeviceFloats() { EXPECT_EQ(tuttiMemFree(data_), tuttiSuccess); }
  DeviceFloats(const DeviceFloats&) = delete;
  DeviceFloats& operator=(const DeviceFloats&) = delete;

  float* data() { return data_; }
  void fill(float value) { std::fill_n(data_, count_, value); }
  bool is(float value) const {
    return std::all_of(data_, data_ + count_, [value](float one) { return one == value; });
  }
  std::vector<float> get() const { return std::vector<float>(data_, data_ + count_); }
  tuttiResult_t reduce(tuttiComm_t comm, tuttiStream_t stream = nullptr) {
    return tuttiAllReduce(data_, data_, count_, tuttiFloat32, tuttiSum, comm, stream);
  }

 private:
  float* data_ = nullptr;
  std::size_t count_;
};

/// Reduces until that fails, and reports how. Odd ranks call on CUDA streams where `streams`.
inline void reduce_until_failure(tuttiComm_t comm, int rank, Shared& shared, std::size_t count, bool streams) {
  ASSERT_NE(comm, nullptr) << shared.text[rank];
  DeviceFloats data(count);
  tuttiStream_t stream = nullptr;
  DeviceDriver::Stream cuda = nullptr;
  ASSERT_TRUE(stand_in().create_stream(stand_in().current_device(), &cuda).ok());
  if (streams && rank % 2 == 1) {
    ASSERT_EQ(tuttiStreamFromCuda(&stream, cuda), tuttiSuccess);
  }
  tuttiResult_t result = tuttiSuccess;
  while (result == tuttiSuccess) {
    data.fill(0.0f);
    result = data.reduce(comm, stream);
    if (result == tuttiSuccess && stream != nullptr) result = tuttiStreamSynchronize(stream);
    if (result == tuttiSuccess) shared.step[rank].fetch_add(1);
  }
  shared.report(rank, result, tuttiGetLastError(comm));
  EXPECT_TRUE(stand_in().synchronize(cuda).ok()) << "its kernels have ended";
  if (stream != nullptr) (void)tuttiStreamDestroy(stream);
  (void)tuttiCommDestroy(comm);
  EXPECT_TRUE(stand_in().destroy_stream(cuda).ok());
}

}  // namespace tutti::test

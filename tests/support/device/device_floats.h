// Floats in device memory, and what ranks in several processes do with them until one fails.
#pragma once

#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "support/device/device_processes.h"
#include "support/device/device_vector.h"
#include "support/device/stand_in_driver.h"

namespace tutti::test {

/// On the device that its thread uses; ones at first.
class DeviceFloats : public DeviceVector {
 public:
  explicit DeviceFloats(std::size_t count, int device = stand_in().current_device())
      : DeviceVector(count, 1.0f, device), count_(count) {}
  explicit DeviceFloats(const std::vector<float>& values) : DeviceFloats(values.size()) {
    std::copy(values.begin(), values.end(), data());
  }

  std::vector<float> get() { return std::vector<float>(data(), data() + count_); }
  tuttiResult_t reduce(tuttiComm_t comm, tuttiStream_t stream = nullptr) {
    return tuttiAllReduce(data(), data(), count_, tuttiFloat32, tuttiSum, comm, stream);
  }

 private:
  std::size_t count_;
};

/// Reduces until that fails, and reports how. Odd ranks call on CUDA streams where `streams`.
inline void reduce_until_failure(tuttiComm_t comm, int rank, Shared& shared, std::size_t count, bool streams) {
  ASSERT_NE(comm, nullptr) << shared.text[rank];
  DeviceFloats data(count);
  tuttiStream_t stream = nullptr;
  DeviceDriver::Stream cuda = nullptr;
  ASSERT_TRUE(stand_in().create_caller_stream(stand_in().current_device(), &cuda).ok());
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

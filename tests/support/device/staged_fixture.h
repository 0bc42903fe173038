// What tests of calls through host memory work on: values in either kind of memory, CUDA streams, and devices that do
// not reach each other.
#pragma once

#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <vector>

#include "support/device/caller_stream.h"
#include "support/device/octets.h"
#include "support/device/settled.h"
#include "support/device/stand_in_driver.h"
#include "support/ranks.h"

namespace tutti::test {

/// Values in device memory, or for ranks without a device in host memory.
class Values {
 public:
  Values(std::size_t count, bool on_device, int device = 0)
      : bytes_(count * sizeof(float), on_device, device), count_(count) {}
  Values(const std::vector<float>& values, bool on_device, int device = 0) : Values(values.size(), on_device, device) {
    std::copy(values.begin(), values.end(), real());
  }

  /// For the library.
  void* data() { return bytes_.data(); }
  /// For the test.
  float* real() { return reinterpret_cast<float*>(bytes_.real()); }
  std::vector<float> get() { return std::vector<float>(real(), real() + count_); }

 private:
  Octets bytes_;
  std::size_t count_;
};

/// Each rank has a device of its own, and none reaches another.
class Staged : public ::testing::Test {
 protected:
  void SetUp() override {
    stand_in().set_devices(8);
    stand_in().cut_peers(true);
  }
  void TearDown() override {
    stand_in().set_devices(1);
    stand_in().cut_peers(false);
    stand_in().hide_memory(false);
    stand_in().take_all_memory(false);
    if (settle_stand_in() || !aborts_) {
      EXPECT_EQ(stand_in().allocations(), before_);
    }
  }
  /// The case aborts: a communicator whose call takes longer than 50 ms to end is kept, with its memory.
  void set_aborts() { aborts_ = true; }

 private:
  bool aborts_ = false;
  const std::size_t before_ = stand_in().allocations();  // tests of aborts may leave memory behind
};

class StagedStreams : public Staged {
 protected:
  void SetUp() override {
    Staged::SetUp();
    stand_in().hide_memory(true);
  }
  const ScopedSetting quiet_{"TUTTI_LOG", "error"};
};

/// Value i of block `block` that comes from `rank`: small integers, so that sums are exact.
inline float value_of(int rank, std::size_t block, std::size_t i) {
  return static_cast<float>((static_cast<std::size_t>(rank) * 7 + block * 3 + i) % 50);
}
inline std::vector<float> blocks_of(int rank, std::size_t blocks, std::size_t count) {
  std::vector<float> values;
  for (std::size_t b = 0; b < blocks; ++b)
    for (std::size_t i = 0; i < count; ++i) values.push_back(value_of(rank, b, i));
  return values;
}

}  // namespace tutti::test

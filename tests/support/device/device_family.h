// Calls of each kind on device memory, whose results are known.
#pragma once

#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <cstdint>
#include <vector>

#include "support/device/device_vector.h"

namespace tutti::test {

/// One rank's buffers for a collective of each kind, and what is in them after a round in which the input was `seed`.
class DeviceFamily {
 public:
  DeviceFamily(int rank, int ranks, int device, std::size_t count)
      : rank_(rank),
        ranks_(ranks),
        count_(count),
        sum_(count, 0, device),
        blocks_(count * size(), 0, device),
        gathered_(count * size(), 0, device),
        exchanged_(count * size(), 0, device),
        scattered_(count, 0, device),
        ragged_(count * size() * size(), 0, device) {
    for (std::size_t r = 0; r < size(); ++r) {
      counts_.push_back(r % 2 == 0 ? count : count / 2);
      starts_.push_back(r * count);
    }
  }

  /// In the order of the stream.
  void fill(DeviceDriver::Stream cuda, std::uint32_t seed) {
    StandInDriver::put(cuda, [this, seed] { write(seed); });
  }
  void call(tuttiComm_t comm, tuttiStream_t stream) {
    const auto own = static_cast<std::size_t>(rank_);
    EXPECT_EQ(tuttiAllReduce(sum_.data(), sum_.data(), count_, tuttiUint32, tuttiSum, comm, stream), tuttiSuccess);
    EXPECT_EQ(tuttiAllGather(blocks_.data(), gathered_.data(), count_, tuttiUint32, comm, stream), tuttiSuccess);
    EXPECT_EQ(tuttiAllToAll(blocks_.data(), exchanged_.data(), count_, tuttiUint32, comm, stream), tuttiSuccess);
    EXPECT_EQ(tuttiReduceScatter(blocks_.data(), scattered_.data(), count_, tuttiUint32, tuttiMax, comm, stream),
              tuttiSuccess);
    EXPECT_EQ(tuttiAllGatherV(blocks_.data(), ragged_.data(), counts_[own], counts_.data(), starts_.data(), tuttiUint32,
                              comm, stream),
              tuttiSuccess);
    EXPECT_EQ(tuttiBroadcast(sum_.data(), sum_.data(), count_, tuttiUint32, ranks_ - 1, comm, stream), tuttiSuccess);
    EXPECT_EQ(tuttiBarrier(comm, stream), tuttiSuccess);
  }
  void check(std::uint32_t seed) const {
    std::uint32_t total = 0;
    for (int r = 0; r < ranks_; ++r) total += first(r, seed);
    const auto last = static_cast<std::uint32_t>(ranks_ - 1);
    for (std::size_t i = 0; i < count_; ++i) {
      const auto step = static_cast<std::uint32_t>(i);
      ASSERT_EQ(sum_[i], total + step * static_cast<std::uint32_t>(ranks_)) << seed << ' ' << i;
      ASSERT_EQ(scattered_[i], first(ranks_ - 1, seed) + step + 1000 * static_cast<std::uint32_t>(rank_)) << seed;
      for (std::size_t r = 0; r <= last; ++r) {
        const std::uint32_t from = first(static_cast<int>(r), seed) + step;
        ASSERT_EQ(gathered_[r * count_ + i], from) << seed << ' ' << i;
        ASSERT_EQ(exchanged_[r * count_ + i], from + 1000 * static_cast<std::uint32_t>(rank_)) << seed;
        if (i >= counts_[r]) continue;
        ASSERT_EQ(ragged_[r * count_ + i], from) << seed << ' ' << i;
      }
    }
  }

 private:
  std::size_t size() const { return static_cast<std::size_t>(ranks_); }
  static std::uint32_t first(int rank, std::uint32_t seed) { return static_cast<std::uint32_t>(rank) * 7 + seed * 131; }
  void write(std::uint32_t seed) {
    for (std::size_t i = 0; i < count_; ++i) {
      sum_[i] = first(rank_, seed) + static_cast<std::uint32_t>(i);
      for (std::size_t r = 0; r < size(); ++r) {
        blocks_[r * count_ + i] = first(rank_, seed) + static_cast<std::uint32_t>(i + 1000 * r);
        gathered_[r * count_ + i] = exchanged_[r * count_ + i] = ragged_[r * count_ + i] = 0;
      }
    }
  }

  int rank_;
  int ranks_;
  std::size_t count_;
  DeviceMemory<std::uint32_t> sum_, blocks_, gathered_, exchanged_, scattered_, ragged_;
  std::vector<std::size_t> counts_, starts_;
};

}  // namespace tutti::test

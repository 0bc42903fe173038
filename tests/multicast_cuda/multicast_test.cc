// Messages to all that are announced in mirrors, on GPUs: with ranks that share one, the mirror is one memory with two
// addresses and ordinary stores; with a GPU each, a multicast object. Skipped where there is none.
// Covers device/cuda_mappings.cc, device/cuda_driver.cc, device/cuda_contexts.cc,
// executor/device/interpreter_integers.cu.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "device/cuda_mappings.h"
#include "kernels_cuda/device_memory.h"
#include "kernels_cuda/device_words.h"
#include "support/ranks.h"

namespace tutti::test {
namespace {

std::uint32_t value_of(int rank, std::size_t i, std::uint32_t round) {
  return static_cast<std::uint32_t>(rank + 1) * 1'000'003u + static_cast<std::uint32_t>(i) * 7u + round * 31u;
}

/// Collectives with messages to all, small and large, many after one another; every element is looked at.
void run_rank(tuttiComm_t comm, int rank, int ranks, int device) {
  ASSERT_EQ(cudaSetDevice(device), cudaSuccess);
  for (const std::size_t count : {std::size_t{1}, std::size_t{300}, std::size_t{5'000}, std::size_t{700'001}}) {
    const std::size_t all = count * static_cast<std::size_t>(ranks);
    DeviceWords own(count, device), gathered(all, device), sum(count, device);
    for (std::uint32_t round = 0; round < 20; ++round) {
      Words mine(count), total(count), each(all);
      for (std::size_t i = 0; i < count; ++i) mine[i] = value_of(rank, i, round);
      for (std::size_t i = 0; i < all; ++i) {
        each[i] = value_of(static_cast<int>(i / count), i % count, round);
        total[i % count] += each[i];
      }
      own.write(mine);
      gathered.write(Words(all));
      ASSERT_EQ(tuttiAllGather(own.data(), gathered.data(), count, tuttiUint32, comm, nullptr), tuttiSuccess)
          << tuttiGetLastError(comm);
      ASSERT_EQ(tuttiAllReduce(own.data(), sum.data(), count, tuttiUint32, tuttiSum, comm, nullptr), tuttiSuccess)
          << tuttiGetLastError(comm);
      const int root = static_cast<int>(round) % ranks;
      ASSERT_EQ(tuttiBroadcast(own.data(), own.data(), count, tuttiUint32, root, comm, nullptr), tuttiSuccess)
          << tuttiGetLastError(comm);
      for (std::size_t i = 0; i < count; ++i) mine[i] = value_of(root, i, round);
      ASSERT_TRUE(gathered.read() == each) << count << ", round " << round;
      ASSERT_TRUE(sum.read() == total) << count << ", round " << round;
      ASSERT_TRUE(own.read() == mine) << count << ", round " << round;
    }
  }
}

/// The device memory of rank 0's links.
std::uint64_t run_ranks(const std::vector<int>& devices, const char* multicast) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "cuda");
  const ScopedSetting setting("TUTTI_MULTICAST", multicast);
  const int ranks = static_cast<int>(devices.size());
  std::vector<tuttiComm_t> comms(devices.size());
  std::uint64_t bytes = 0;
  if (tuttiCommInitAll(comms.data(), ranks, devices.data()) != tuttiSuccess) {
    ADD_FAILURE() << tuttiGetLastError(nullptr);
    return bytes;
  }
  EXPECT_EQ(tuttiCommMemStats(comms[0], tuttiMemStatDevice, &bytes), tuttiSuccess);
  std::vector<std::thread> running;
  for (int rank = 0; rank < ranks; ++rank) {
    running.emplace_back([&, rank] {
      const auto own = static_cast<std::size_t>(rank);
      run_rank(comms[own], rank, ranks, devices[own]);
      EXPECT_EQ(tuttiCommDestroy(comms[own]), tuttiSuccess) << tuttiGetLastError(nullptr);
    });
  }
  for (std::thread& rank : running) rank.join();
  return bytes;
}

TEST(Mapped, IsExactOnOneDevice) {
  if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
  for (const std::size_t ranks : {2, 4, 7}) {
    const std::vector<int> devices(ranks, 0);
    const std::uint64_t with = run_ranks(devices, "mapped");
    EXPECT_GT(with, run_ranks(devices, "off")) << "there is no mirror";
  }
}

TEST(Multicast, IsExactOnDevicesThatHaveIt) {
  if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  std::vector<int> devices;
  for (int device = 0; device < count && devices.size() < 8; ++device)
    if (DeviceMappings* const mappings = cuda_mappings(); mappings != nullptr && mappings->can_multicast(device))
      devices.push_back(device);
  if (devices.size() < 2) GTEST_SKIP() << "no two GPUs with multicast";
  const std::uint64_t with = run_ranks(devices, "auto");
  EXPECT_GT(with, run_ranks(devices, "off")) << "multicast was not set up";
}

}  // namespace
}  // namespace tutti::test

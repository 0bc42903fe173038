// Messages to all that are announced in mirrors, on GPUs: with ranks that share one, the mirror is one memory with two
// addresses and ordinary stores; with a GPU each, a multicast object. Skipped where there is none.
// Covers device/cuda_mappings.cc, device/cuda_driver.cc, device/cuda_contexts.cc,
// executor/device/interpreter_integers.cu.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <cstdint>
#include <deque>
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

constexpr std::size_t kCounts[] = {1, 300, 5'000, 700'001};
constexpr std::size_t kMost = 700'001;

/// What a rank works on.
struct Buffers {
  Buffers(int ranks, int device)
      : own(kMost, device), gathered(kMost * static_cast<std::size_t>(ranks), device), sum(kMost, device) {}

  DeviceWords own, gathered, sum;
};

/// One after the other, on memory that was written before. Nobody copies while another rank's kernel may wait for it.
void call_all(tuttiComm_t comm, Buffers& on, std::size_t count, int root) {
  ASSERT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess) << tuttiGetLastError(comm);
  ASSERT_EQ(tuttiAllGather(on.own.data(), on.gathered.data(), count, tuttiUint32, comm, nullptr), tuttiSuccess)
      << tuttiGetLastError(comm);
  ASSERT_EQ(tuttiAllReduce(on.own.data(), on.sum.data(), count, tuttiUint32, tuttiSum, comm, nullptr), tuttiSuccess)
      << tuttiGetLastError(comm);
  ASSERT_EQ(tuttiBroadcast(on.own.data(), on.own.data(), count, tuttiUint32, root, comm, nullptr), tuttiSuccess)
      << tuttiGetLastError(comm);
  ASSERT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess) << tuttiGetLastError(comm);
}

/// Collectives with messages to all, small and large, many after one another; every element is looked at.
void run_rank(tuttiComm_t comm, int rank, int ranks, int device, Buffers& on) {
  ASSERT_EQ(cudaSetDevice(device), cudaSuccess);
  for (const std::size_t count : kCounts) {
    const std::size_t all = count * static_cast<std::size_t>(ranks);
    for (std::uint32_t round = 0; round < 20; ++round) {
      Words mine(count), total(count), each(all);
      for (std::size_t i = 0; i < count; ++i) mine[i] = value_of(rank, i, round);
      for (std::size_t i = 0; i < all; ++i) {
        each[i] = value_of(static_cast<int>(i / count), i % count, round);
        total[i % count] += each[i];
      }
      on.own.write(mine);
      on.gathered.write(Words(all));
      const int root = static_cast<int>(round) % ranks;
      call_all(comm, on, count, root);
      if (::testing::Test::HasFatalFailure()) return;
      for (std::size_t i = 0; i < count; ++i) mine[i] = value_of(root, i, round);
      ASSERT_TRUE(on.gathered.read(all) == each) << count << ", round " << round;
      ASSERT_TRUE(on.sum.read(count) == total) << count << ", round " << round;
      ASSERT_TRUE(on.own.read(count) == mine) << count << ", round " << round;
    }
  }
}

/// The device memory of rank 0's links.
std::uint64_t run_ranks(const std::vector<int>& devices, const char* multicast) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "cuda");
  const ScopedSetting setting("TUTTI_MULTICAST", multicast);
  const int ranks = static_cast<int>(devices.size());
  std::deque<Buffers> buffers;  // made before the join, and freed when all ranks have left
  for (const int device : devices) buffers.emplace_back(ranks, device);
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
      run_rank(comms[own], rank, ranks, devices[own], buffers[own]);
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

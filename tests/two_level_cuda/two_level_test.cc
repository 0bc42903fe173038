// Calls at two levels on a GPU: two processes that call themselves hosts share it, with two ranks each, whose kernels
// wait for each other and for nobody else. Skipped where there is none.
// Covers device/cuda_library.cc, device/cuda_driver.cc, executor/device/device_passes.cu.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "kernels_cuda/device_memory.h"
#include "kernels_cuda/device_words.h"
#include "support/ranks.h"

namespace tutti::test {
namespace {

constexpr int kHosts = 2, kRanksEach = 2, kRanks = kHosts * kRanksEach;
constexpr auto kAll = static_cast<std::size_t>(kRanks);

/// `blocks` blocks of a rank.
Words words_of(int rank, std::size_t blocks, std::size_t count) {
  Words words(blocks * count);
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = static_cast<std::uint32_t>(rank + 1) * 1'000'003u + static_cast<std::uint32_t>(i) * 7u;
  return words;
}
Words sum(std::size_t blocks, std::size_t count) {
  Words all(blocks * count);
  for (int rank = 0; rank < kRanks; ++rank) {
    const Words one = words_of(rank, blocks, count);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] += one[i];
  }
  return all;
}

void expect_exact(tuttiComm_t comm, int rank, std::size_t count) {
  const auto own = static_cast<std::size_t>(rank);
  const Words total = sum(1, count), parts = sum(kAll, count);
  const auto part = parts.begin() + static_cast<std::ptrdiff_t>(own * count);
  DeviceWords in(words_of(rank, 1, count), 0), out(Words(count, 0u), 0);
  EXPECT_EQ(tuttiAllReduce(in.data(), out.data(), count, tuttiUint32, tuttiSum, comm, nullptr), tuttiSuccess)
      << tuttiGetLastError(comm);
  EXPECT_TRUE(out.read() == total) << count;
  for (int root = 0; root < kRanks; ++root) {
    DeviceWords result(Words(count, 0u), 0), data(words_of(rank, 1, count), 0);
    EXPECT_EQ(tuttiReduce(in.data(), result.data(), count, tuttiUint32, tuttiSum, root, comm, nullptr), tuttiSuccess);
    EXPECT_TRUE(rank != root || result.read() == total) << count;
    EXPECT_EQ(tuttiBroadcast(data.data(), data.data(), count, tuttiUint32, root, comm, nullptr), tuttiSuccess);
    EXPECT_TRUE(data.read() == words_of(root, 1, count)) << count;
  }
  DeviceWords whole(words_of(rank, kAll, count), 0);
  std::uint32_t* const mine = whole.data() + own * count;  // in place
  EXPECT_EQ(tuttiReduceScatter(whole.data(), mine, count, tuttiUint32, tuttiSum, comm, nullptr), tuttiSuccess);
  const Words scattered = whole.read();
  EXPECT_TRUE(std::equal(part, part + static_cast<std::ptrdiff_t>(count), scattered.begin() + (part - parts.begin())));
  EXPECT_EQ(tuttiAllGather(mine, whole.data(), count, tuttiUint32, comm, nullptr), tuttiSuccess);
  EXPECT_TRUE(whole.read() == parts) << count;
}

/// Microseconds of an all-reduce in place.
double time_of(tuttiComm_t comm, std::size_t count) {
  DeviceWords data(Words(count, 1u), 0);
  constexpr int kCalls = 5;
  EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i)
    EXPECT_EQ(tuttiAllReduce(data.data(), data.data(), count, tuttiUint32, tuttiSum, comm, nullptr), tuttiSuccess);
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count() / kCalls;
}

void run_rank(const tuttiUniqueId& id, int rank, bool kernels) {
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  tuttiComm_t comm = nullptr;
  ASSERT_EQ(tuttiCommInitRank(&comm, kRanks, id, rank), tuttiSuccess) << tuttiGetLastError(nullptr);
  char way[200] = "";
  EXPECT_EQ(tuttiCommGetInfo(comm, "device_algorithm:all_reduce:4000000", way, sizeof way), tuttiSuccess);
  EXPECT_EQ(std::string(way).find("two_levels") == 0, kernels) << way;
  for (const std::size_t count : {std::size_t{1}, std::size_t{5'000}, std::size_t{20'001}, std::size_t{3'000'017}})
    expect_exact(comm, rank, count);
  for (std::size_t count = 1 << 14; count <= 1 << 24; count *= 8) {
    const double time = time_of(comm, count);
    if (rank == 0) std::printf("%s of %zu bytes: %.1f us\n", way, count * sizeof(std::uint32_t), time);
  }
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
}

/// In a process of its own, which may use the device. Its exit code.
int in_process(const std::function<int()>& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    const int code = body();
    std::fflush(nullptr);
    ::_exit(code);
  }
  const int status = await_end(child);
  return status != -1 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class OnOneGpu : public ::testing::TestWithParam<const char*> {};

TEST_P(OnOneGpu, TwoProcessesOfTwoRanksAreExact) {
  if (in_process([] { return why_no_gpu().empty() ? 0 : 1; }) != 0) GTEST_SKIP() << "no GPU";
  const ScopedSetting from("TUTTI_TWO_LEVELS", GetParam());
  const bool kernels = std::string(GetParam()) != "off";
  tuttiUniqueId id;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const auto host = [&](int number) {
    ::setenv("TUTTI_HOSTID", std::to_string(number).c_str(), 1);
    std::vector<std::thread> ranks;
    for (int i = 0; i < kRanksEach; ++i) ranks.emplace_back([&, i] { run_rank(id, number * kRanksEach + i, kernels); });
    for (std::thread& rank : ranks) rank.join();
    return ::testing::Test::HasFailure() ? 5 : 0;
  };
  std::thread first([&] {
    EXPECT_EQ(in_process([&] {
                if (tuttiGetUniqueId(&id) != tuttiSuccess || ::write(ends[1], &id, sizeof id) != sizeof id) return 3;
                return host(0);
              }),
              0);
  });
  const int second = in_process([&] { return ::read(ends[0], &id, sizeof id) == sizeof id ? host(1) : 3; });
  first.join();
  EXPECT_EQ(second, 0);
  ::close(ends[0]);
  ::close(ends[1]);
}
INSTANTIATE_TEST_SUITE_P(Ways, OnOneGpu, ::testing::Values("64K", "off"),
                         [](const auto& info) { return "From_" + std::string(info.param); });

}  // namespace
}  // namespace tutti::test

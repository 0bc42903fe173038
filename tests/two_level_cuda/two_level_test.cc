// Calls at two levels on a GPU: two processes that call themselves hosts share it, with two ranks each, whose kernels
// wait for each other and for nobody else. Skipped where there is none.
// Covers device/cuda_library.cc, device/cuda_driver.cc, executor/device/device_passes.cu.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <algorithm>
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

constexpr std::size_t kCounts[] = {1, 5'000, 20'001, 3'000'017};
constexpr std::size_t kMost = 1 << 23;

/// What a rank works on.
struct Buffers {
  DeviceWords in{kMost, 0}, out{kMost, 0}, whole{kAll * kMost, 0};
};

/// All have called, so that no kernel waits for a rank that copies.
void meet(tuttiComm_t comm) { EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess) << tuttiGetLastError(comm); }

void expect_exact_of_roots(tuttiComm_t comm, int rank, std::size_t count, const Words& total, Buffers& on) {
  for (int root = 0; root < kRanks; ++root) {
    on.in.write(words_of(rank, 1, count));
    on.out.write(Words(count, 0u));
    meet(comm);
    EXPECT_EQ(tuttiReduce(on.in.data(), on.out.data(), count, tuttiUint32, tuttiSum, root, comm, nullptr),
              tuttiSuccess);
    EXPECT_EQ(tuttiBroadcast(on.in.data(), on.in.data(), count, tuttiUint32, root, comm, nullptr), tuttiSuccess);
    meet(comm);
    EXPECT_TRUE(rank != root || on.out.read(count) == total) << count;
    EXPECT_TRUE(on.in.read(count) == words_of(root, 1, count)) << count;
  }
}

void expect_exact(tuttiComm_t comm, int rank, std::size_t count, Buffers& on) {
  const auto own = static_cast<std::size_t>(rank);
  const Words total = sum(1, count), parts = sum(kAll, count);
  on.in.write(words_of(rank, 1, count));
  on.out.write(Words(count, 0u));
  meet(comm);
  EXPECT_EQ(tuttiAllReduce(on.in.data(), on.out.data(), count, tuttiUint32, tuttiSum, comm, nullptr), tuttiSuccess)
      << tuttiGetLastError(comm);
  meet(comm);
  EXPECT_TRUE(on.out.read(count) == total) << count;
  expect_exact_of_roots(comm, rank, count, total, on);
  on.whole.write(words_of(rank, kAll, count));
  meet(comm);
  std::uint32_t* const mine = on.whole.data() + own * count;  // in place
  EXPECT_EQ(tuttiReduceScatter(on.whole.data(), mine, count, tuttiUint32, tuttiSum, comm, nullptr), tuttiSuccess);
  meet(comm);
  const Words scattered = on.whole.read(kAll * count);
  const auto first = static_cast<std::ptrdiff_t>(own * count), last = first + static_cast<std::ptrdiff_t>(count);
  EXPECT_TRUE(std::equal(parts.begin() + first, parts.begin() + last, scattered.begin() + first)) << count;
  meet(comm);
  EXPECT_EQ(tuttiAllGather(mine, on.whole.data(), count, tuttiUint32, comm, nullptr), tuttiSuccess);
  meet(comm);
  EXPECT_TRUE(on.whole.read(kAll * count) == parts) << count;
}

/// Microseconds of an all-reduce in place.
double time_of(tuttiComm_t comm, std::size_t count, Buffers& on) {
  on.in.write(Words(count, 1u));
  constexpr int kCalls = 5;
  meet(comm);
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i)
    EXPECT_EQ(tuttiAllReduce(on.in.data(), on.in.data(), count, tuttiUint32, tuttiSum, comm, nullptr), tuttiSuccess);
  const auto took = std::chrono::steady_clock::now() - began;
  meet(comm);
  return std::chrono::duration<double, std::micro>(took).count() / kCalls;
}

void run_rank(const tuttiUniqueId& id, int rank, bool kernels, Buffers& on) {
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  tuttiComm_t comm = nullptr;
  ASSERT_EQ(tuttiCommInitRank(&comm, kRanks, id, rank), tuttiSuccess) << tuttiGetLastError(nullptr);
  char way[200] = "";
  EXPECT_EQ(tuttiCommGetInfo(comm, "device_algorithm:all_reduce:4000000", way, sizeof way), tuttiSuccess);
  EXPECT_EQ(std::string(way).find("two_levels") == 0, kernels) << way;
  for (const std::size_t count : kCounts) expect_exact(comm, rank, count, on);
  for (std::size_t count = 1 << 14; count <= kMost; count *= 8) {
    const double time = time_of(comm, count, on);
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
    Buffers buffers[kRanksEach];  // made before the join, and freed when both ranks have left
    std::vector<std::thread> ranks;
    for (int i = 0; i < kRanksEach; ++i)
      ranks.emplace_back([&, i] { run_rank(id, number * kRanksEach + i, kernels, buffers[i]); });
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

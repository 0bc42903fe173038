// Memory from tuttiMemAlloc and registered memory, which local peers read directly.
// Covers comm/api/api_memory.cc, core/memory.cc, transport/shm/direct_read.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <numeric>
#include <string>
#include <vector>

#include "support/ranks.h"

namespace tutti::test {
namespace {

constexpr std::size_t kCount = 300'007;

void fill(int* data, std::size_t count, int first) {
  for (std::size_t i = 0; i < count; ++i) data[i] = first + static_cast<int>(i % 1009);
}

/// Returns the first i for which numbers[i] is not value(i), or kCount if there is none. An assertion for each of
/// millions of numbers would take minutes under a sanitizer.
template <class Value>
std::size_t first_wrong(const int* numbers, const Value& value) {
  std::size_t i = 0;
  while (i < kCount && numbers[i] == value(i)) ++i;
  return i;
}

/// Every collective from `memory`, a few times: the first call finds out who can read, the others use it.
void run_from(int* memory, tuttiComm_t comm, int rank, int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t own = static_cast<std::size_t>(rank) * kCount;
  // Returns a function of i, which gives the number that rank r has at the place first + i.
  const auto of = [](int r, std::size_t first = 0) {
    return [=](std::size_t i) { return r * 10 + static_cast<int>((first + i) % 1009); };
  };
  std::vector<int> out(kCount * n);
  for (int round = 0; round < 3; ++round) {
    fill(memory, kCount * n, rank * 10);
    ASSERT_EQ(tuttiAllReduce(memory, out.data(), kCount, tuttiInt32, tuttiMax, comm, nullptr), tuttiSuccess)
        << tuttiGetLastError(comm);
    ASSERT_EQ(first_wrong(out.data(), of(ranks - 1)), kCount);
    // The buffer is the caller's again: what is written now must not be what peers get.
    fill(memory, kCount * n, rank * 10 + 1000);
    fill(memory, kCount * n, rank * 10);
    ASSERT_EQ(tuttiAllGather(memory, out.data(), kCount, tuttiInt32, comm, nullptr), tuttiSuccess);
    memory[5] = -1;
    for (int r = 0; r < ranks; ++r)
      ASSERT_EQ(first_wrong(&out[static_cast<std::size_t>(r) * kCount], of(r)), kCount) << "block " << r;
    fill(memory, kCount * n, rank * 10);
    ASSERT_EQ(tuttiReduceScatter(memory, out.data(), kCount, tuttiInt32, tuttiMin, comm, nullptr), tuttiSuccess);
    ASSERT_EQ(first_wrong(out.data(), of(0, own)), kCount);
    ASSERT_EQ(tuttiAllToAll(memory, out.data(), kCount, tuttiInt32, comm, nullptr), tuttiSuccess);
    for (int r = 0; r < ranks; ++r)
      ASSERT_EQ(first_wrong(&out[static_cast<std::size_t>(r) * kCount], of(r, own)), kCount) << "block " << r;
    ASSERT_EQ(tuttiAllReduce(memory, memory, kCount, tuttiInt32, tuttiMax, comm, nullptr), tuttiSuccess) << "in place";
    ASSERT_EQ(first_wrong(memory, of(ranks - 1)), kCount);
  }
}

void run_all(tuttiComm_t comm, int rank, int ranks) {
  void* allocated = nullptr;
  const std::size_t bytes = kCount * static_cast<std::size_t>(ranks) * sizeof(int);
  ASSERT_EQ(tuttiMemAlloc(&allocated, bytes), tuttiSuccess);
  run_from(static_cast<int*>(allocated), comm, rank, ranks);
  EXPECT_EQ(tuttiMemFree(allocated), tuttiSuccess);

  std::vector<int> own(kCount * static_cast<std::size_t>(ranks));
  void* handle = nullptr;
  // One rank has registered memory, the others not: the schedule is the same.
  if (rank == 1) {
    ASSERT_EQ(tuttiCommRegister(comm, own.data(), bytes, &handle), tuttiSuccess);
  }
  run_from(own.data(), comm, rank, ranks);
  if (rank == 1) {
    EXPECT_EQ(tuttiCommDeregister(comm, handle), tuttiSuccess);
  }
}

class Memory : public ::testing::TestWithParam<std::tuple<int, const char*>> {};

TEST_P(Memory, PeersReadItAndGetWhatTheyGetFromCopies) {
  const int ranks = std::get<0>(GetParam());
  const ScopedSetting cma("TUTTI_CMA", std::get<1>(GetParam()));
  run_threads(ranks, [ranks](tuttiComm_t comm, int rank) {
    run_all(comm, rank, ranks);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
  Processes processes(ranks, [ranks](tuttiComm_t comm, int rank, Shared&) {
    run_all(comm, rank, ranks);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
  for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(processes.wait(rank), 0);
}
INSTANTIATE_TEST_SUITE_P(All, Memory, ::testing::Combine(::testing::Values(2, 3), ::testing::Values("1", "0")),
                         [](const auto& info) {
                           return std::to_string(std::get<0>(info.param)) + "_cma_" + std::get<1>(info.param);
                         });

TEST(MemoryBook, WhatIsNotOursIsRefused) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  int other = 0;
  EXPECT_EQ(tuttiMemFree(&other), tuttiInvalidArgument);
  EXPECT_EQ(tuttiMemFree(nullptr), tuttiSuccess);
  void* memory = nullptr;
  ASSERT_EQ(tuttiMemAlloc(&memory, 0), tuttiSuccess);
  EXPECT_NE(memory, nullptr);
  EXPECT_EQ(tuttiMemFree(memory), tuttiSuccess);
  EXPECT_EQ(tuttiMemFree(memory), tuttiInvalidArgument) << "twice";
  run_threads(1, [&](tuttiComm_t comm, int) {
    void* handle = nullptr;
    EXPECT_EQ(tuttiCommRegister(comm, nullptr, 8, &handle), tuttiInvalidArgument);
    EXPECT_EQ(tuttiCommRegister(comm, &other, sizeof other, &handle), tuttiSuccess);
    EXPECT_EQ(tuttiCommDeregister(comm, handle), tuttiSuccess);
    EXPECT_EQ(tuttiCommDeregister(comm, handle), tuttiInvalidArgument) << "twice";
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

}  // namespace
}  // namespace tutti::test

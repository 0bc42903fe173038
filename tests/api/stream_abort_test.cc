// After an abort the buffers of a stream's calls are the caller's, who may have freed them.
// Covers comm/queue/operation.cc.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "support/await.h"
#include "support/ranks.h"
#include "support/stuck_stream.h"

namespace tutti::test {
namespace {

/// What rank 1 does meanwhile: `call`, and then it waits for the abort.
template <class Call>
void call_beside(tuttiComm_t comm, const std::atomic<bool>& held, const std::atomic<bool>& aborted, const Call& call) {
  await([&] { return held.load(); }, "the callback");
  call();
  await([&] { return aborted.load(); }, "the abort");
  (void)tuttiCommDestroy(comm);
}

TEST(AloneStreamAbort, NothingIsWrittenByACallUnderWay) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  std::atomic<bool> held{false}, aborted{false};
  run_threads(2, [&](tuttiComm_t comm, int rank) {
    float value = 1;
    if (rank == 1) {
      float mine = 2;
      call_beside(comm, held, aborted,
                  [&] { (void)tuttiAllReduce(&mine, &mine, 1, tuttiFloat32, tuttiSum, comm, nullptr); });
      return;
    }
    tuttiStream_t calls = nullptr;
    ASSERT_EQ(tuttiStreamCreate(&calls), tuttiSuccess);
    EXPECT_EQ(tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiSum, comm, calls), tuttiSuccess);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it begins, or the case shows less
    StuckStream stuck;
    held = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // for what rank 1 sends
    EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
    aborted = true;
    value = -7;
    stuck.go_on();
    EXPECT_EQ(tuttiStreamSynchronize(calls), tuttiAborted);
    EXPECT_EQ(value, -7);
    EXPECT_EQ(tuttiStreamDestroy(calls), tuttiSuccess);
  });
}

// Small all-reduces of a group travel together: when they begin, all their inputs are read.
TEST(AloneStreamAbort, NothingIsReadByAGroupThatHasNotBegun) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  std::atomic<bool> held{false}, aborted{false};
  run_threads(2, [&](tuttiComm_t comm, int rank) {
    if (rank == 1) {
      call_beside(comm, held, aborted, [] {});
      return;
    }
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* const memory = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    auto* const values = static_cast<float*>(memory);
    tuttiStream_t calls = nullptr;
    ASSERT_EQ(tuttiStreamCreate(&calls), tuttiSuccess);
    StuckStream stuck;
    held = true;
    EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(tuttiAllReduce(values + i, values + i, 1, tuttiFloat32, tuttiSum, comm, calls), tuttiSuccess);
    EXPECT_EQ(tuttiGroupEnd(), tuttiSuccess);
    EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
    aborted = true;
    ::munmap(memory, page);
    stuck.go_on();
    EXPECT_EQ(tuttiStreamSynchronize(calls), tuttiAborted);
    EXPECT_EQ(tuttiStreamDestroy(calls), tuttiSuccess);
  });
}

}  // namespace
}  // namespace tutti::test

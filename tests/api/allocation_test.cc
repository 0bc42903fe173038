// The hot path builds nothing and allocates nothing: counted, not promised.
// Covers comm/call_driver.cc, comm/launch_binder.cc, executor/cpu_executor.cc, executor/step_work.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <cstdlib>
#include <new>
#include <vector>

#include "support/ranks.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
TEST(Allocation, RepeatedCallsMakeNone) { GTEST_SKIP() << "the sanitizers bring their own operator new"; }
#else
namespace {
thread_local long allocations = 0;
}

// Replaces the program's operator new; the library is linked in statically, so its allocations are counted, too. Not
// inlined: the compiler takes a visible malloc inside new for a mismatch with delete.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace tutti::test {
namespace {

TEST(Allocation, RepeatedCallsMakeNone) {
  run_threads(3, [](tuttiComm_t comm, int) {
    const std::size_t counts[] = {1, 1000, 300'007};
    std::vector<float> in(3 * 300'007, 1.0f), out(3 * 300'007);
    const auto call_all = [&](std::size_t count) {
      EXPECT_EQ(tuttiAllReduce(in.data(), out.data(), count, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
      EXPECT_EQ(tuttiBroadcast(in.data(), out.data(), count, tuttiFloat32, 1, comm, nullptr), tuttiSuccess);
      EXPECT_EQ(tuttiReduce(in.data(), out.data(), count, tuttiFloat32, tuttiMax, 2, comm, nullptr), tuttiSuccess);
      EXPECT_EQ(tuttiAllGather(in.data(), out.data(), count, tuttiFloat32, comm, nullptr), tuttiSuccess);
      EXPECT_EQ(tuttiReduceScatter(in.data(), out.data(), count, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
      EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
    };
    for (const std::size_t count : counts) call_all(count);
    const long before = allocations;
    for (int round = 0; round < 20; ++round)
      for (const std::size_t count : counts) call_all(count);
    EXPECT_EQ(allocations, before);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

}  // namespace
}  // namespace tutti::test
#endif

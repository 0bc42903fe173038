// Covers transport/shm/sleep_word.cc, transport/shm/shm.cc.
// Sleeping where the system takes the barrier away.
#include "transport/shm/sleep_word.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>

#include "support/rank_processes.h"
#include "transport/shm/shm.h"
#include "transport/world.h"

namespace tutti::testing_traffic {
namespace {

/// As a sandbox that begins after the join: membarrier is refused from now on.
bool refuse_barriers() {
  std::array<sock_filter, 4> filter{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{filter.size(), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

constexpr int kSkipped = 77;

/// 0: no sleep lasts.
int sleep_without_barriers() {
  const WorldSize alone{.ranks = 1};
  const auto end = open_endpoint(alone.geometry(), Rank{0}, make_segments(alone.geometry()));
  if (!ProcessBarrier::enroll() || !refuse_barriers()) return kSkipped;
  if (ProcessBarrier::run()) return 3;
  const auto begin = Clock::now();
  for (int i = 0; i < 3; ++i) {
    end->announce_sleep(kNoRank);
    end->sleep(test::kPatience);
  }
  return Clock::now() - begin < test::kPatience ? 0 : 4;
}

// Who waits for one of many messages is not woken by all the others.
TEST(SleepWord, WakesForThePeerThatItWaitsForAlone) {
  SleepWord word{};
  word.announce(Rank{1});
  word.wake_if_announced(Rank{2});
  EXPECT_FALSE(word.sleep(std::chrono::milliseconds{1}));
  word.announce(Rank{1});
  word.wake_if_announced(Rank{1});
  EXPECT_TRUE(word.sleep(test::kPatience));
  word.announce(kNoRank);
  word.wake_if_announced(Rank{2});
  EXPECT_TRUE(word.sleep(test::kPatience));
  word.announce(Rank{1});
  word.wake();
  EXPECT_TRUE(word.sleep(test::kPatience)) << "a death or a cause wakes everybody";
}

TEST(AloneSleepWord, WithoutTheBarrierNoSleepLasts) {
  const int end = test::end_of_process([] { ::_exit(sleep_without_barriers()); });
  if (WEXITSTATUS(end) == kSkipped) GTEST_SKIP() << "this system has no membarrier, or no seccomp";
  EXPECT_EQ(end, 0);
}

}  // namespace
}  // namespace tutti::testing_traffic

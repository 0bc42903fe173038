// Covers executor/cpu_executor.cc.
// How often a waiting rank asks whether to go on, and who ends its sleep.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/choice/catalogue.h"
#include "core/clock.h"
#include "executor/cpu_executor.h"
#include "support/await.h"
#include "transport/shm/shm.h"

namespace tutti::test {
namespace {

/// Ends the wait at the first question after a while.
class Impatience final : public WaitMonitor {
 public:
  explicit Impatience(std::chrono::milliseconds patience) : end_(Clock::now() + patience) {}
  Status check(Rank awaited, std::uint64_t) override {
    ++questions_;
    awaited_ = awaited;
    return Clock::now() < end_ ? Status{} : fail(Code::kTimeout, "nobody came");
  }
  int questions() const { return questions_; }
  Rank awaited() const { return awaited_; }

 private:
  const Clock::time_point end_;
  int questions_ = 0;
  Rank awaited_ = kNoRank;
};

std::vector<std::unique_ptr<ShmEndpoint>> endpoints_of(int ranks) {
  ShmGeometry geometry;
  geometry.ranks = ranks;
  geometry.slot_bytes = Bytes{4096};
  std::vector<std::shared_ptr<Segment>> segments(static_cast<std::size_t>(ranks));
  for (auto& segment : segments) EXPECT_TRUE(Segment::create(geometry.segment_bytes(), &segment).ok());
  std::vector<std::unique_ptr<ShmEndpoint>> endpoints(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    EXPECT_TRUE(ShmEndpoint::open(geometry, Rank{rank}, segments, &endpoints[static_cast<std::size_t>(rank)]).ok());
  return endpoints;
}

/// Rank 0's barrier, in which it waits for rank 1, which does not come, and then for the others.
void wait_for_nobody(std::unique_ptr<ShmEndpoint> endpoint, int ranks_per_core, Impatience* monitor) {
  const Schedule schedule =
      build_schedule(*find_algorithm(Collective::kBarrier, "linear"), Shape{endpoint->ranks(), 0, 0, 1});
  CpuExecutor<ShmEndpoint> executor(std::move(endpoint), LadderPolicy::choose(ranks_per_core, -1),
                                    PointToPointPolicy{Lane{0}});
  Launch launch;
  launch.schedule = &schedule;
  launch.tile = Elems{1};
  launch.fingerprint = 1;
  EXPECT_EQ(executor.run(launch, *monitor).code(), Code::kTimeout);
  EXPECT_EQ(monitor->awaited(), Rank{1});
}

/// How often a thread of this process has gone to sleep.
long sleeps_of(pid_t thread) {
  std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
  const std::string name = "voluntary_ctxt_switches:";
  for (std::string line; std::getline(status, line);)
    if (line.rfind(name, 0) == 0) return std::stol(line.substr(name.size()));
  return -1;
}

// A look at all ranks costs a turn that the others on the core wait for. But who has not looked for half a second takes
// itself for a process that was stopped.
TEST(Wait, RanksThatShareACoreAskSeldomButOftenEnough) {
  constexpr std::chrono::milliseconds kWhile{400};
  Impatience crowd(kWhile);
  wait_for_nobody(std::move(endpoints_of(2)[0]), 1000, &crowd);
  EXPECT_GE(crowd.questions(), 2) << "in 0.4 s";
  EXPECT_LE(crowd.questions(), 4) << "every 0.1 s";
}

// A rank that waits for several messages needs one of them next, and the others do not wake it.
TEST(Wait, OthersThanTheAwaitedRankEndNoSleep) {
  if (!ProcessBarrier::enroll()) GTEST_SKIP() << "without membarrier sleeps are short";
  auto endpoints = endpoints_of(3);
  Impatience monitor(std::chrono::milliseconds{600});
  std::atomic<pid_t> waiter{0};
  std::thread thread([&] {
    waiter = static_cast<pid_t>(::syscall(SYS_gettid));
    wait_for_nobody(std::move(endpoints[0]), 2, &monitor);
  });
  EXPECT_TRUE(comes_true([&] { return waiter != 0; }));
  std::this_thread::sleep_for(std::chrono::milliseconds{100});  // it has yielded for 4 ms, and sleeps
  const long before = sleeps_of(waiter);
  constexpr int kMessages = 16;
  for (int i = 0; i < kMessages; ++i) {
    const Route to{Rank{0}, false, 0};
    EXPECT_NE(endpoints[2]->send_claim(to, Bytes{0}), nullptr);
    endpoints[2]->send_commit(to, Bytes{0}, 1);
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  const long after = sleeps_of(waiter);
  thread.join();
  EXPECT_GE(before, 0);
  EXPECT_LT(after - before, kMessages / 2);
}

}  // namespace
}  // namespace tutti::test

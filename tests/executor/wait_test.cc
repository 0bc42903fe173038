// Covers executor/cpu_executor.cc.
// How often a waiting rank asks whether to go on.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "collectives/catalogue.h"
#include "core/clock.h"
#include "executor/cpu_executor.h"
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

/// Rank 0's barrier, to which rank 1 does not come.
void wait_for_nobody(int ranks_per_core, Impatience* monitor) {
  ShmGeometry geometry;
  geometry.ranks = 2;
  geometry.slot_bytes = Bytes{4096};
  std::vector<std::shared_ptr<Segment>> segments(2);
  for (auto& segment : segments) ASSERT_TRUE(Segment::create(geometry.segment_bytes(), &segment).ok());
  std::unique_ptr<ShmEndpoint> endpoint;
  ASSERT_TRUE(ShmEndpoint::open(geometry, Rank{0}, segments, &endpoint).ok());
  CpuExecutor<ShmEndpoint> executor(std::move(endpoint), LadderPolicy::choose(ranks_per_core, -1),
                                    PointToPointPolicy{Lane{0}});
  const Schedule schedule = build_schedule(*find_algorithm(Collective::kBarrier, "linear"), Shape{2, 0, 0, 1});
  Launch launch;
  launch.schedule = &schedule;
  launch.tile = Elems{1};
  launch.fingerprint = 1;
  EXPECT_EQ(executor.run(launch, *monitor).code(), Code::kTimeout);
  EXPECT_EQ(monitor->awaited(), Rank{1});
}

// A look at all ranks costs a turn that the others on the core wait for. But who has not looked for half a second takes
// itself for a process that was stopped.
TEST(Wait, RanksThatShareACoreAskSeldomButOftenEnough) {
  constexpr std::chrono::milliseconds kWhile{400};
  Impatience crowd(kWhile);
  wait_for_nobody(1000, &crowd);
  EXPECT_GE(crowd.questions(), 2) << "in 0.4 s";
  EXPECT_LE(crowd.questions(), 4) << "every 0.1 s";
}

}  // namespace
}  // namespace tutti::test

// More ranks that share no memory than are all asked at once why a wait is long: each on a host of its own, by TCP. Who
// keeps the others waiting is named all the same.
// Covers comm/failure/wait_judge.cc, comm/failure/finalization.cc.
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <thread>

#include "support/await.h"
#include "support/process_usage.h"
#include "support/ranks.h"
#include "support/shared_memory.h"

namespace tutti::test {
namespace {

constexpr int kRanks = 48;
constexpr int kOdd = 29;
/// A rank whose service thread does not answer within two seconds counts as stopped.
constexpr const char* kTooSlow = "so many processes with a sanitizer beside other tests do not answer in time";

tuttiResult_t sum(tuttiComm_t comm, std::size_t count) {
  float mine[2] = {1, 1};
  float total[2] = {};
  const tuttiResult_t result = tuttiAllReduce(mine, total, count, tuttiFloat32, tuttiSum, comm, nullptr);
  if (result == tuttiSuccess) {
    EXPECT_EQ(total[0], kRanks);
  }
  return result;
}

/// All make a call that succeeds; then rank kOdd does something else, and the others make another one, which must end
/// with that result and a sentence that has these words. In a ring the chain of waiters is long.
void expect(const std::function<void(tuttiComm_t)>& odd, tuttiResult_t result, const std::string& words,
            const char* timeout) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "tcp");
  const ScopedSetting algorithm("TUTTI_ALGO", "ring");
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const ScopedSetting limit("TUTTI_TIMEOUT", timeout);
  Processes processes(kRanks, [&](tuttiComm_t comm, int rank, Shared& shared) {
    EXPECT_EQ(sum(comm, 1), tuttiSuccess) << tuttiGetLastError(comm);
    shared.step[rank].store(1);
    for (int other = 0; rank == kOdd && other < kRanks; ++other) shared.wait_for_step(other, 1);
    if (rank == kOdd) odd(comm);
    const tuttiResult_t got = sum(comm, 1);
    shared.report(rank, got, tuttiGetLastError(comm));
    EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
  });
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == kOdd) continue;
    EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank << ": " << processes.shared().text[rank];
    EXPECT_EQ(processes.shared().result[rank].load(), result) << "rank " << rank;
    const std::string text = processes.shared().text[rank];
    EXPECT_NE(text.find(words), std::string::npos) << "rank " << rank << ": " << text;
  }
}

TEST(TimedManyFarRanks, NameTheOneThatDoesNotCome) {
  if (kSanitized) GTEST_SKIP() << kTooSlow;
  expect([](tuttiComm_t) { ::sleep(60); }, tuttiTimeout, "rank 29 has not called all_reduce", "12");
}

TEST(TimedManyFarRanks, NameTheOneThatIsStopped) {
  if (kSanitized) GTEST_SKIP() << kTooSlow;
  expect([](tuttiComm_t) { std::raise(SIGSTOP); }, tuttiTimeout, "rank 29 ", "12");
}

TEST(ManyFarRanks, NameTheOneThatCallsAnotherThing) {
  expect([](tuttiComm_t comm) { sum(comm, 2); }, tuttiMismatch, "rank 29 called all_reduce of 2 float32", "60");
}

// It cannot say what it called, and the deadline of the other's call must not hide that the calls differ.
TEST(TimedFarMismatch, WithARankThatIsStoppedIsOne) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "tcp");
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const ScopedSetting limit("TUTTI_TIMEOUT", "2");
  Processes processes(2, [&](tuttiComm_t comm, int rank, Shared& shared) {
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess) << tuttiGetLastError(comm);
    if (rank == 1) {
      EXPECT_EQ(tuttiCommSetTimeout(comm, 60), tuttiSuccess);
      shared.step[1].store(1);
      sum(comm, 2);
      return;
    }
    shared.wait_for_step(1, 2);
    const tuttiResult_t got = sum(comm, 1);
    shared.report(0, got, tuttiGetLastError(comm));
    EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
  });
  processes.shared().wait_for_step(1, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(kSanitized ? 3000 : 300));  // until its message is on its way
  stop_process(processes.pid(1));
  processes.shared().step[1].store(2);
  EXPECT_EQ(processes.wait(0), 0);
  EXPECT_EQ(processes.shared().result[0].load(), tuttiMismatch) << processes.shared().text[0];
  EXPECT_NE(std::string(processes.shared().text[0]).find("rank 1"), std::string::npos) << processes.shared().text[0];
  processes.signal(1, SIGKILL);
}

/// While it lives, this thread and the processes that it makes run on two of its cores.
class TwoCores {
 public:
  TwoCores() {
    if (sched_getaffinity(0, sizeof before_, &before_) != 0) return;
    cpu_set_t two;
    CPU_ZERO(&two);
    for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&two) < 2; ++core)
      if (CPU_ISSET(core, &before_)) CPU_SET(core, &two);
    is_set_ = sched_setaffinity(0, sizeof two, &two) == 0;
  }
  ~TwoCores() {
    if (is_set_) sched_setaffinity(0, sizeof before_, &before_);
  }
  TwoCores(const TwoCores&) = delete;
  TwoCores& operator=(const TwoCores&) = delete;

  bool is_set() const { return is_set_; }

 private:
  cpu_set_t before_{};
  bool is_set_ = false;
};

/// Ranks that waited for two seconds made eight connections each second, of which 1,024 ranks on two cores had so much
/// work that they waited for half a minute more.
TEST(ManyFarRanks, MakeFewConnectionsWhileTheyWait) {
  if (kSanitized) GTEST_SKIP() << kTooSlow;
  constexpr int kMany = 96;
  const TwoCores few;
  if (!few.is_set()) GTEST_SKIP() << "the system does not tell which cores there are, or binds to none";
  const ScopedSetting transport("TUTTI_TRANSPORT", "tcp");
  const SharedMemory<std::atomic<long>> made;
  Processes processes(kMany, [&](tuttiComm_t comm, int rank, Shared& shared) {
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess) << tuttiGetLastError(comm);
    const int before = open_sockets();
    if (rank == kOdd) ::sleep(6);
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess) << tuttiGetLastError(comm);
    if (rank != kOdd) *made += open_sockets() - before;
    shared.step[rank].store(1);
    for (int one = 0; one < kMany; ++one) shared.wait_for_step(one, 1);
    EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
  });
  processes.expect_success();
  EXPECT_LE(made->load(), 32 * kMany);
}

/// The first call makes connections, so ranks that share few cores wait long in it. When each of them asked all others
/// for the reason, it took ten times as long as the join, which makes more connections.
TEST(TimedFirstFarCall, TakesNotMuchLongerThanTheJoin) {
  if (kSanitized) GTEST_SKIP() << "192 processes take half a minute under a sanitizer";
  constexpr int kMany = 192;
  const ScopedSetting transport("TUTTI_TRANSPORT", "tcp");
  Processes processes(kMany, [&](tuttiComm_t comm, int rank, Shared& shared) {
    tuttiUniqueId id;
    if (rank == 0) {
      ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
    }
    ASSERT_EQ(tuttiBroadcast(&id, &id, sizeof id, tuttiUint8, 0, comm, nullptr), tuttiSuccess)
        << tuttiGetLastError(comm);
    tuttiComm_t other = nullptr;
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_EQ(tuttiCommInitRank(&other, kMany, id, rank), tuttiSuccess) << tuttiGetLastError(nullptr);
    const auto joined = std::chrono::steady_clock::now();
    const float mine = 1;
    float total = 0;
    ASSERT_EQ(tuttiAllReduce(&mine, &total, 1, tuttiFloat32, tuttiSum, other, nullptr), tuttiSuccess)
        << tuttiGetLastError(other);
    const auto summed = std::chrono::steady_clock::now();
    EXPECT_EQ(total, kMany);
    shared.microseconds[rank].store(std::chrono::duration_cast<std::chrono::microseconds>(summed - joined).count());
    shared.second_here[rank].store(std::chrono::duration_cast<std::chrono::microseconds>(joined - begin).count());
    shared.step[rank].store(1);
    for (int one = 0; one < kMany; ++one) shared.wait_for_step(one, 1);
    EXPECT_EQ(tuttiCommAbort(other), tuttiSuccess);
    EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
  });
  processes.expect_success();
  EXPECT_LT(processes.shared().microseconds[0].load(), 4 * processes.shared().second_here[0].load());
}

}  // namespace
}  // namespace tutti::test

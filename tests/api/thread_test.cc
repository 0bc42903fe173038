// Threads that the library starts: what it does where the system gives none, and whose signals they take.
// Covers core/library_thread.cc, comm/queue/progress_thread.cc, comm/queue/call_group.cc.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "support/await.h"
#include "support/ranks.h"

namespace tutti::test {
namespace {

/// No thread can be started meanwhile: a new one would have a stack that fits no address space.
class NoMoreThreads {
 public:
  NoMoreThreads() {
    ::pthread_getattr_default_np(&before_);
    pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    EXPECT_EQ(::pthread_attr_setstacksize(&attributes, std::size_t{1} << 50), 0);
    EXPECT_EQ(::pthread_setattr_default_np(&attributes), 0);
    ::pthread_attr_destroy(&attributes);
  }
  ~NoMoreThreads() { ::pthread_setattr_default_np(&before_); }
  NoMoreThreads(const NoMoreThreads&) = delete;
  NoMoreThreads& operator=(const NoMoreThreads&) = delete;

 private:
  pthread_attr_t before_{};
};

std::string blocked_signals() {
  sigset_t mask;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  std::string text;
  for (int number = 1; number < NSIG; ++number)
    if (::sigismember(&mask, number) == 1) text += std::to_string(number) + " ";
  return text;
}

void expect_lack_of_threads(tuttiResult_t result) {
  EXPECT_EQ(result, tuttiSystemError);
  const std::string text = tuttiGetLastError(nullptr);
  EXPECT_NE(text.find("cannot start a thread"), std::string::npos) << text;
}

TEST(AloneLackOfThreads, IsAnErrorThatLeavesTheCallersSignalsAlone) {
  const std::string before = blocked_signals();
  tuttiUniqueId id;
  tuttiComm_t comms[2] = {};
  tuttiStream_t stream = nullptr;
  {
    const NoMoreThreads none;
    for (int i = 0; i < 3; ++i) expect_lack_of_threads(tuttiGetUniqueId(&id));
    expect_lack_of_threads(tuttiCommInitAll(comms, 2, nullptr));
    expect_lack_of_threads(tuttiStreamCreate(&stream));
  }
  EXPECT_EQ(blocked_signals(), before);
  ASSERT_EQ(tuttiCommInitAll(comms, 2, nullptr), tuttiSuccess) << tuttiGetLastError(nullptr);
  ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess) << tuttiGetLastError(nullptr);
  EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
  for (tuttiComm_t comm : comms) EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
}

// The service thread is there, and those of the group's joins are not: none of them begins, or the first would wait
// for the second until its deadline.
TEST(AloneLackOfThreads, OfAGroupsJoinsLetsNoneBegin) {
  tuttiUniqueId id;
  ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess) << tuttiGetLastError(nullptr);
  tuttiComm_t comms[2] = {};
  {
    const NoMoreThreads none;
    expect_lack_of_threads(tuttiCommInitAll(comms, 2, nullptr));
    EXPECT_EQ(comms[0], nullptr);
    EXPECT_EQ(comms[1], nullptr);
  }
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(tuttiCommInitRank(&comms[rank], 2, id, rank), tuttiSuccess);
  ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError(nullptr);
  for (tuttiComm_t comm : comms) EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
}

/// The line "SigBlk" of each thread of this process that the library has named.
std::vector<std::string> masks_of_library_threads() {
  std::vector<std::string> masks;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(thread.path() / "status");
    std::string name, line;
    while (std::getline(status, line)) {
      if (line.rfind("Name:", 0) == 0) name = line.substr(6);
      if (line.rfind("SigBlk:", 0) == 0 && name.rfind("tutti-", 0) == 0) masks.push_back(name + line);
    }
  }
  return masks;
}

TEST(LibraryThreads, TakeNoSignalsOfTheApplication) {
  tuttiComm_t comm = nullptr;
  tuttiStream_t stream = nullptr;
  ASSERT_EQ(tuttiCommInitAll(&comm, 1, nullptr), tuttiSuccess) << tuttiGetLastError(nullptr);
  ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess) << tuttiGetLastError(nullptr);
  // A thread names itself once it runs.
  EXPECT_TRUE(await([] { return masks_of_library_threads().size() >= 2; }, "the service and the progress thread"));
  for (const std::string& mask : masks_of_library_threads()) {
    const unsigned long long blocked = std::stoull(mask.substr(mask.find('\t') + 1), nullptr, 16);
    for (const int number : {SIGINT, SIGTERM, SIGALRM, SIGCHLD, SIGUSR1, SIGPROF})
      EXPECT_NE(blocked >> (number - 1) & 1, 0u) << mask << ", signal " << number;
  }
  EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
}

/// Runs a function in a thread with a stack of 64 KiB, as programs with thousands of threads have them, and waits.
void run_on_small_stack(const std::function<void()>& main) {
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  EXPECT_EQ(::pthread_attr_setstacksize(&attributes, std::size_t{64} << 10), 0);
  pthread_t thread{};
  const auto call = [](void* function) -> void* {
    (*static_cast<const std::function<void()>*>(function))();
    return nullptr;
  };
  ASSERT_EQ(::pthread_create(&thread, &attributes, call, const_cast<std::function<void()>*>(&main)), 0);
  ::pthread_attr_destroy(&attributes);
  ::pthread_join(thread, nullptr);
}

struct Links {
  const char* name;
  const char* transport;
  const char* tls;
};

class SmallStacks : public ::testing::TestWithParam<Links> {
 protected:
  static constexpr int kRanks = 2;

  /// A join, a split, and calls of both kinds and of several sizes.
  static void run_rank(const tuttiUniqueId& id, int rank) {
    tuttiComm_t comm = nullptr, part = nullptr;
    tuttiStream_t stream = nullptr;
    ASSERT_EQ(tuttiCommInitRank(&comm, kRanks, id, rank), tuttiSuccess) << tuttiGetLastError(nullptr);
    ASSERT_EQ(tuttiCommSplit(comm, 0, rank, &part, nullptr), tuttiSuccess) << tuttiGetLastError(comm);
    ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess) << tuttiGetLastError(nullptr);
    for (const std::size_t count : {std::size_t{1}, std::size_t{10'000}, std::size_t{1'000'000}}) {
      for (const tuttiDataType_t type : {tuttiFloat32, tuttiInt32}) {
        std::vector<int> zeros(count), results(count, 1);
        for (const tuttiStream_t where : {tuttiStream_t{nullptr}, stream}) {
          EXPECT_EQ(tuttiAllReduce(zeros.data(), results.data(), count, type, tuttiSum, part, where), tuttiSuccess);
          EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiSuccess);
          EXPECT_EQ(results, zeros);
        }
      }
    }
    EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(part), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  }

  const ScopedSetting transport_{"TUTTI_TRANSPORT", GetParam().transport};
  const ScopedSetting tls_{"TUTTI_TLS", GetParam().tls};
};

TEST_P(SmallStacks, AreEnough) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's frames are several times as large";
  tuttiUniqueId id;
  ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess) << tuttiGetLastError(nullptr);
  std::thread other([&id] { run_on_small_stack([&id] { run_rank(id, 1); }); });
  run_on_small_stack([&id] { run_rank(id, 0); });
  other.join();
}

INSTANTIATE_TEST_SUITE_P(Over, SmallStacks,
                         ::testing::Values(Links{"shm", "shm", "off"}, Links{"tcp", "tcp", "off"},
                                           Links{"tls", "tcp", "on"}),
                         [](const auto& info) { return std::string(info.param.name); });

// The progress thread is not in the child: a stream of the parent's would run nothing.
TEST(AloneStreams, OfTheParentAreRefusedInAChildAndNewOnesRun) {
  if (kThreadSanitized) GTEST_SKIP() << "it does not support threads in a child of a process with threads";
  tuttiStream_t stream = nullptr;
  ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess) << tuttiGetLastError(nullptr);
  ASSERT_TRUE(await_others_asleep());
  const pid_t child = ::fork();
  if (child == 0) {
    std::atomic<int> calls{0};
    const auto count = [](tuttiResult_t, void* user) { ++*static_cast<std::atomic<int>*>(user); };
    tuttiStream_t own = nullptr;
    const bool right = tuttiStreamQuery(stream) == tuttiInvalidUsage &&
                       tuttiStreamAddCallback(stream, count, &calls) == tuttiInvalidUsage &&
                       tuttiStreamCreate(&own) == tuttiSuccess &&
                       tuttiStreamAddCallback(own, count, &calls) == tuttiSuccess &&
                       tuttiStreamSynchronize(own) == tuttiSuccess && tuttiStreamDestroy(own) == tuttiSuccess;
    ::_exit(right && calls == 1 ? 0 : 1);
  }
  EXPECT_EQ(await_end(child), 0);
  EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
}

}  // namespace
}  // namespace tutti::test

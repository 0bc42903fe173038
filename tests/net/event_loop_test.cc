// Covers net/event_loop.cc.
// The event loop: what came and what is due, after a stop of the process.
#include "net/event_loop.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <thread>

#include "support/await.h"
#include "support/rank_processes.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kDue{1000};  // long enough to be stopped before

/// Ends the process by 0 if this comes before the timer.
struct Answer final : EventHandler {
  void on_events(std::uint32_t) override { ::_exit(0); }
};

[[noreturn]] void wait_for_answer(int pipe) {
  EventLoop loop;
  if (!loop.open().ok() || !loop.watch(pipe, EPOLLIN, std::make_shared<Answer>()).ok()) ::_exit(2);
  loop.after(kDue, [] { ::_exit(1); });
  loop.run();
  ::_exit(4);
}

// A peer's answer may have come while the process was stopped, and so may the end of the time that the peer had.
TEST(TimedEventLoop, AfterAStopWhatCameIsSeenBeforeWhatIsDue) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe(ends), 0);
  const Descriptor in(ends[0]);
  const Descriptor out(ends[1]);
  test::RankProcesses processes;
  processes.start([&in] { wait_for_answer(in.get()); });
  const pid_t child = processes.pid(0);
  test::await([&] { return test::state_of("/proc/" + std::to_string(child)) == 'S'; }, "the loop");
  test::stop_process(child);
  ASSERT_EQ(::write(out.get(), "x", 1), 1);
  std::this_thread::sleep_for(kDue);
  processes.signal(0, SIGCONT);
  EXPECT_EQ(processes.wait(0), 0) << "256: the timer came first";
}

}  // namespace
}  // namespace tutti

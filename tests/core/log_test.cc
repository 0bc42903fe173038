// Covers core/log.cc.
// The log's queue and its thread.
#include "core/log.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "support/await.h"
#include "support/emulated.h"
#include "support/sanitized.h"

namespace tutti::test {
namespace {

/// Collects the lines, one after the other, while it lets the log's thread go on.
struct Lines {
  std::vector<std::string> texts;
  std::atomic<int> count{0};
  std::atomic<bool> go{true};

  Lines() { log_set_callback(take, this); }
  ~Lines() {
    go = true;
    log_set_callback(nullptr, nullptr);
  }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  static void take(int, const char* line, void* user) {
    auto* const self = static_cast<Lines*>(user);
    self->texts.emplace_back(line);
    ++self->count;
    await([self] { return self->go.load(); }, "leave to go on");
  }
};

void say(int number) { log(LogLevel::kError, {}, "line {}", number); }

TEST(AloneLog, LinesComeInOrderAndWhole) {
  Lines lines;
  for (int i = 0; i < 100; ++i) say(i);
  ASSERT_TRUE(log_drain(kPatience));
  ASSERT_EQ(lines.texts.size(), 100u);
  for (int i = 0; i < 100; ++i)
    EXPECT_TRUE(lines.texts[static_cast<std::size_t>(i)].ends_with("error: line " + std::to_string(i)));
}

TEST(AloneLog, LinesThatFindNoRoomAreCounted) {
  Lines lines;
  lines.go = false;
  say(-1);
  await([&] { return lines.count == 1; }, "the first line");  // it is with the callback, and the queue is empty
  for (int i = 0; i < 1500; ++i) say(i);
  lines.go = true;
  ASSERT_TRUE(log_drain(kPatience));
  EXPECT_EQ(lines.texts.size(), 1u + 1000u);
  say(2000);
  ASSERT_TRUE(log_drain(kPatience));
  ASSERT_EQ(lines.texts.size(), 1u + 1000u + 2u);
  EXPECT_NE(lines.texts[1001].find("500 lines were left out here"), std::string::npos) << lines.texts[1001];
  EXPECT_TRUE(lines.texts[1002].ends_with("line 2000"));
}

TEST(AloneLog, AnotherCallbackIsNotWaitedForByWhoSetsIt) {
  Lines* const first = new Lines;
  first->go = false;
  for (int i = 0; i < 10; ++i) say(i);
  await([&] { return first->count == 1; }, "the first line");
  std::thread letting([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // longer than the old callback is given
    first->go = true;
  });
  static std::atomic<bool> swapped{false};
  swapped = false;
  log_set_callback([](int, const char*, void*) { await([] { return swapped.load(); }, "the end of the swap"); },
                   nullptr);
  swapped = true;  // the second callback waits for this, as it would for a lock of who sets it
  letting.join();
  EXPECT_EQ(first->count, 1) << "the old callback was called after the swap";
  ASSERT_TRUE(log_drain(kPatience));
  delete first;
}

// Whoever can make a link of that name would choose where a privileged process writes.
TEST(AloneLog, AFileThatIsALinkIsNotWrittenTo) {
  const std::string file = ::testing::TempDir() + "tutti-log-" + std::to_string(::getpid()), link = file + "-link";
  std::filesystem::create_symlink(file, link);
  ::testing::internal::CaptureStderr();
  log_configure(LogLevel::kWarn, link);
  say(1);
  EXPECT_TRUE(log_drain(kPatience));
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("cannot be opened"), std::string::npos) << said;
  EXPECT_NE(said.find("line 1"), std::string::npos) << said;
  EXPECT_FALSE(std::filesystem::exists(file));
  log_configure(LogLevel::kWarn, file);
  say(2);
  EXPECT_TRUE(log_drain(kPatience));
  EXPECT_EQ(std::filesystem::status(file).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_GT(std::filesystem::file_size(file), 0u);
  log_configure(LogLevel::kWarn, "");
  std::filesystem::remove(file);
  std::filesystem::remove(link);
}

TEST(AloneLog, ACallbackThatThrowsEndsNothing) {
  std::atomic<int> calls{0};
  log_set_callback(
      [](int, const char*, void* user) {
        ++*static_cast<std::atomic<int>*>(user);
        throw 7;
      },
      &calls);
  say(1);
  say(2);
  ASSERT_TRUE(log_drain(kPatience));
  log_set_callback(nullptr, nullptr);
  EXPECT_EQ(calls, 2);
}

TEST(AloneLog, AForkedChildLogsWhateverTheParentWasAt) {
  if (kThreadSanitized) GTEST_SKIP() << "it does not support threads in a child of a process with threads";
  if (is_emulated()) GTEST_SKIP() << "the emulator does not support it, either";
  Lines lines;
  lines.go = false;
  for (int i = 0; i < 10; ++i) say(i);
  await([&] { return lines.count == 1; }, "the first line");
  const pid_t child = ::fork();  // while the callback has a line, and others wait
  if (child == 0) {
    std::atomic<int> calls{0};
    log_set_callback([](int, const char*, void* user) { ++*static_cast<std::atomic<int>*>(user); }, &calls);
    say(100);
    const bool written = log_drain(kPatience);
    ::_exit(written && calls == 1 ? 0 : 1);
  }
  EXPECT_EQ(await_end(child), 0);
  lines.go = true;
  ASSERT_TRUE(log_drain(kPatience));
  EXPECT_EQ(lines.texts.size(), 10u);
}

// What is logged after the log's own end is written by whoever logs it, whose signals are the program's.
TEST(AloneLog, AProcessWhoseErrorsNobodyReadsEndsInOrder) {
  await_no_other_thread();
  const pid_t child = ::fork();
  if (child == 0) {
    int ends[2] = {-1, -1};
    if (::pipe(ends) != 0) ::_exit(2);
    std::atexit([] { say(1); });  // called after the log's own
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[1]);
    say(0);
    (void)log_drain(kPatience);
    ::close(ends[0]);
    std::exit(0);
  }
  EXPECT_EQ(await_end(child), 0);
}

}  // namespace
}  // namespace tutti::test

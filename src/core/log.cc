#include "core/log.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <memory>
#include <thread>
#include <utility>

#include "core/clock.h"
#include "core/library_thread.h"
#include "core/mutex.h"
#include "core/status.h"

namespace tutti {

namespace log_detail {
std::atomic<int> threshold{static_cast<int>(LogLevel::kWarn)};
}

namespace {

/// Lines that wait to be written.
constexpr std::size_t kMostLines = 1000;
/// The thread ends when it has had nothing to do for so long.
constexpr std::chrono::milliseconds kIdle{100};
/// What a new callback leaves to the old one: lines logged before, if they take no longer.
constexpr std::chrono::seconds kHandOver{1};

const char* label(LogLevel level) {
  static constexpr const char* kLabels[] = {"error", "warn", "info", "debug", "trace"};
  return kLabels[static_cast<int>(level)];
}

std::string stamped(LogLevel level, LogSource source, std::string_view text) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  localtime_r(&now.tv_sec, &parts);
  std::string line = fmt::format("{:02}:{:02}:{:02}.{:03} tutti {}", parts.tm_hour, parts.tm_min, parts.tm_sec,
                                 now.tv_nsec / 1'000'000, label(level));
  if (source.rank != kNoRank) line += fmt::format(" rank {}", source.rank.value);
  if (!source.comm.empty()) line += fmt::format(" comm {}", source.comm);
  line += ": ";
  line += text;
  return line;
}

/// All of it, also to a pipe that takes it in pieces. A destination that takes nothing gets nothing.
void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (written < 0 && errno == EAGAIN) {
      pollfd room{descriptor, POLLOUT, 0};
      ::poll(&room, 1, -1);
    } else if (written == 0 || errno != EINTR) {
      return;
    }
  }
}

/// A file that lines are written to; it stays open while one is.
class LogFile {
 public:
  /// Nobody else's file, whatever a link of that name leads to.
  explicit LogFile(const std::string& path)
      : descriptor_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600)) {}
  ~LogFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

struct Sink {
  LogCallback callback = nullptr;
  void* user = nullptr;
  std::shared_ptr<const LogFile> file;  // nullptr: stderr
};

struct Line {
  LogLevel level;
  std::string text;
};

class Log {
 public:
  // Never destroyed: library threads may log while the process ends.
  static Log& get() {
    static Log* const instance = [] {
      Log* const made = new Log;
      ::pthread_atfork(before_fork, after_fork, in_child);
      std::atexit([] { get().end(); });
      return made;
    }();
    return *instance;
  }

  void add(LogLevel level, std::string text) {
    if (is_writer_) return write_all(STDERR_FILENO, text + '\n');  // the callback made a call that logs
    const MutexLock lock(mutex_);
    if (ended_) return;
    if (lines_.size() < kMostLines) {
      push(level, std::move(text));
    } else {
      ++dropped_;
    }
  }

  bool drain(std::chrono::nanoseconds patience) {
    if (is_writer_) return true;
    const Clock::time_point end = Clock::now() + patience;
    MutexLock lock(mutex_);
    while (running_ && is_busy() && changed_->wait_until(lock, end)) continue;
    return !is_busy();
  }

  void set_file(const std::string& path) {
    const MutexLock lock(mutex_);
    if (path == path_) return;
    path_ = path;
    sink_.file.reset();
    if (path.empty()) return;
    auto file = std::make_shared<const LogFile>(path);
    if (file->descriptor() >= 0) {
      sink_.file = std::move(file);
      return;
    }
    const std::string why = errno_text();
    push(LogLevel::kWarn, stamped(LogLevel::kWarn, {},
                                  fmt::format("the log file {} cannot be opened ({}): logging to stderr", path, why)));
  }

  void set_callback(LogCallback callback, void* user) {
    drain(kHandOver);
    MutexLock lock(mutex_);
    sink_.callback = callback;
    sink_.user = user;
    while (calling_ && !is_writer_) changed_->wait(lock);
  }

 private:
  bool is_busy() const TUTTI_REQUIRES(mutex_) { return writing_ || !lines_.empty() || dropped_ != 0; }

  void push(LogLevel level, std::string text) TUTTI_REQUIRES(mutex_) {
    lines_.push_back(Line{level, std::move(text)});
    if (!running_) start();
    changed_->notify_all();
  }

  /// Without a thread the lines wait for one that comes later.
  void start() TUTTI_REQUIRES(mutex_) {
    std::thread thread;
    if (!start_thread(
             "tutti-log", [this] { write_lines(); }, &thread)
             .ok())
      return;
    thread.detach();  // it ends with the process
    running_ = true;
  }

  void write_lines() {
    is_writer_ = true;
    MutexLock lock(mutex_);
    while (wait_for_lines(&lock)) {
      const Line line = next_line();
      const Sink sink = sink_;
      writing_ = true;
      calling_ = sink.callback != nullptr;
      lock.unlock();
      write(sink, line);
      lock.lock();
      writing_ = calling_ = false;
      changed_->notify_all();
    }
    running_ = false;
  }

  bool wait_for_lines(MutexLock* lock) TUTTI_REQUIRES(mutex_) {
    const Clock::time_point end = Clock::now() + kIdle;
    while (lines_.empty() && dropped_ == 0 && changed_->wait_until(*lock, end)) continue;
    return !lines_.empty() || dropped_ != 0;
  }

  Line next_line() TUTTI_REQUIRES(mutex_) {
    if (lines_.empty())
      return Line{LogLevel::kWarn,
                  stamped(LogLevel::kWarn, {},
                          fmt::format("{} lines were left out here: they came faster than they could be written",
                                      std::exchange(dropped_, 0)))};
    Line line = std::move(lines_.front());
    lines_.pop_front();
    return line;
  }

  static void write(const Sink& sink, const Line& line) {
    if (sink.callback != nullptr) {
      sink.callback(static_cast<int>(line.level), line.text.c_str(), sink.user);
    } else {
      write_all(sink.file != nullptr ? sink.file->descriptor() : STDERR_FILENO, line.text + '\n');
    }
  }

  /// The application's callback must not run while what it uses is torn down.
  void end() {
    drain(kLogPatience);
    const MutexLock lock(mutex_);
    ended_ = true;
    lines_.clear();
    sink_ = Sink{nullptr, nullptr, sink_.file};
  }

  static void before_fork() TUTTI_ACQUIRE(get().mutex_) {
    get().drain(kLogPatience);
    get().mutex_.lock();
  }
  static void after_fork() TUTTI_RELEASE(get().mutex_) { get().mutex_.unlock(); }
  /// The thread is not here, and what it had not written is the parent's to write.
  static void in_child() TUTTI_RELEASE(get().mutex_) {
    get().begin_again();
    get().mutex_.unlock();
  }
  void begin_again() TUTTI_REQUIRES(mutex_) {
    running_ = writing_ = calling_ = is_writer_;  // unless it was the callback that forked
    lines_.clear();
    dropped_ = 0;
    changed_ = new ConditionVariable;  // the old one believes that somebody waits
  }

  static thread_local bool is_writer_;

  Mutex mutex_;
  ConditionVariable* changed_ = new ConditionVariable;  // changed in a child, where only one thread is
  std::deque<Line> lines_ TUTTI_GUARDED_BY(mutex_);
  std::uint64_t dropped_ TUTTI_GUARDED_BY(mutex_) = 0;
  Sink sink_ TUTTI_GUARDED_BY(mutex_);
  std::string path_ TUTTI_GUARDED_BY(mutex_);
  bool running_ TUTTI_GUARDED_BY(mutex_) = false;
  bool writing_ TUTTI_GUARDED_BY(mutex_) = false;  // a line that is in lines_ no more, ...
  bool calling_ TUTTI_GUARDED_BY(mutex_) = false;  // ... by the callback
  bool ended_ TUTTI_GUARDED_BY(mutex_) = false;
};

thread_local bool Log::is_writer_ = false;

}  // namespace

void log_line(LogLevel level, LogSource source, std::string_view text) {
  Log::get().add(level, stamped(level, source, text));
}

bool log_drain(std::chrono::milliseconds patience) { return Log::get().drain(patience); }

void log_configure(LogLevel level, const std::string& path) {
  log_detail::threshold.store(static_cast<int>(level), std::memory_order_relaxed);
  std::string expanded = path;
  if (const auto at = expanded.find("%p"); at != std::string::npos) expanded.replace(at, 2, std::to_string(getpid()));
  Log::get().set_file(expanded);
}

void log_set_callback(LogCallback callback, void* user) { Log::get().set_callback(callback, user); }

}  // namespace tutti

#include "core/log.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <memory>
#include <new>
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
/// How long a new callback waits for the lines that were logged before it, which the old one still gets.
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

bool takes_more(int descriptor, int milliseconds) {
  pollfd room{descriptor, POLLOUT, 0};
  return ::poll(&room, 1, milliseconds) == 1 &&
         (room.revents & POLLERR) == 0;  // a pipe that nobody reads raises a signal
}

/// Writes a line and its end, also to a pipe that takes them in pieces, without memory of its own. `patient`: also if
/// that takes time.
void write_line(int descriptor, std::string_view text, bool patient = true) {
  char end[] = "\n";
  for (std::size_t done = 0; done <= text.size() && (patient || takes_more(descriptor, 0));) {
    const std::string_view rest = text.substr(done);
    const std::array<iovec, 2> parts{{{const_cast<char*>(rest.data()), rest.size()}, {end, 1}}};
    const ssize_t written = ::writev(descriptor, parts.data(), static_cast<int>(parts.size()));
    if (written > 0) {
      done += static_cast<std::size_t>(written);
    } else if (written < 0 && errno == EAGAIN) {
      takes_more(descriptor, -1);
    } else if (written == 0 || errno != EINTR) {
      return;
    }
  }
}

/// A file that lines are written to; it stays open while one is.
class LogFile {
 public:
  /// Whatever a link of that name leads to is not ours to write to, but in /dev, where /dev/stdout is one. A pipe that
  /// nobody reads cannot be opened.
  explicit LogFile(const std::string& path)
      : descriptor_(::open(path.c_str(),
                           O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK |
                               (path.starts_with("/dev/") ? 0 : O_NOFOLLOW),
                           0600)) {}
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
    if (is_writer_) return write_line(STDERR_FILENO, text);  // the callback made a call that logs
    const MutexLock lock(mutex_);
    if (ended_) return write_now(Line{level, std::move(text)});
    if (lines_.size() >= kMostLines) {
      ++dropped_;
      return;
    }
    if (dropped_ != 0)
      push(LogLevel::kWarn, stamped(LogLevel::kWarn, {},
                                    fmt::format("{} lines were left out here: they came faster than they were written",
                                                std::exchange(dropped_, 0))));
    push(level, std::move(text));
  }

  bool drain(std::chrono::nanoseconds timeout) {
    if (is_writer_) return true;
    const Clock::time_point end = Clock::now() + timeout;
    MutexLock lock(mutex_);
    const std::uint64_t last = queued_;
    while (running_ && written_ < last && changed_.wait_until(lock, end)) continue;
    return written_ >= last;
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
    // The exit handler of get() may run after what the callback uses is gone. This one runs before that.
    if (callback != nullptr) {
      [[maybe_unused]] static const int registered = std::atexit([] { get().end_callback(); });
    }
    MutexLock lock(mutex_);
    sink_.callback = callback;
    sink_.user = user;
    const std::uint64_t running = calling_ ? written_ + 1 : 0;  // the old callback's line
    while (calling_ && written_ + 1 == running && !is_writer_) changed_.wait(lock);
  }

 private:
  void push(LogLevel level, std::string text) TUTTI_REQUIRES(mutex_) {
    lines_.push_back(Line{level, std::move(text)});
    ++queued_;
    if (!running_) start();
    changed_.notify_all();
  }

  /// Without a thread the lines wait for one that comes later, or for the end.
  void start() TUTTI_REQUIRES(mutex_) {
    std::thread thread;
    running_ = start_thread(
                   "tutti-log", [this] { write_lines(); }, &thread)
                   .ok();
    if (running_) thread.detach();  // end() waits for it
  }

  void write_lines() {
    is_writer_ = true;
    MutexLock lock(mutex_);
    while (wait_for_lines(&lock)) {
      const Line line = std::move(lines_.front());
      lines_.pop_front();
      const Sink sink = sink_;
      calling_ = sink.callback != nullptr;
      lock.unlock();
      write(sink, line);
      lock.lock();
      calling_ = false;
      ++written_;
      changed_.notify_all();
    }
    running_ = false;
    changed_.notify_all();
  }

  bool wait_for_lines(MutexLock* lock) TUTTI_REQUIRES(mutex_) {
    const Clock::time_point end = Clock::now() + kIdle;
    while (lines_.empty() && !ended_ && changed_.wait_until(*lock, end)) continue;
    return !lines_.empty() && !ended_;
  }

  /// An exception that left this thread would end the process.
  static void write(const Sink& sink, const Line& line) {
    if (sink.callback == nullptr)
      return write_line(sink.file != nullptr ? sink.file->descriptor() : STDERR_FILENO, line.text);
    try {
      sink.callback(static_cast<int>(line.level), line.text.c_str(), sink.user);
    } catch (...) {
      write_line(STDERR_FILENO, line.text);
      write_line(STDERR_FILENO, "tutti warn: the log callback threw an exception at this line");
    }
  }

  /// At the end of the process: not to the callback, and only what is taken at once.
  void write_now(const Line& line) TUTTI_REQUIRES(mutex_) {
    write_line(sink_.file != nullptr ? sink_.file->descriptor() : STDERR_FILENO, line.text, false);
  }

  void end_callback() {
    if (is_foreign()) return;
    drain(kLogTimeout);
    const MutexLock lock(mutex_);
    sink_.callback = nullptr;
  }

  /// The process ends, or unloads the library: the thread, which sees that, is not waited for long.
  void end() {
    if (is_foreign()) return;
    drain(kLogTimeout);
    MutexLock lock(mutex_);
    ended_ = true;
    changed_.notify_all();
    const Clock::time_point last = Clock::now() + kLogTimeout;
    while (running_ && changed_.wait_until(lock, last))
      continue;  // the callback, or who reads the lines, may hold it up
    for (const Line& line : lines_) write_now(line);
    lines_.clear();
  }

  /// A child made without fork() has none of the threads, one of which may hold the mutex.
  bool is_foreign() const { return process_.load(std::memory_order_relaxed) != ::getpid(); }

  static void before_fork() TUTTI_ACQUIRE(get().mutex_) {
    get().drain(kLogTimeout);
    get().mutex_.lock();
  }
  static void after_fork() TUTTI_RELEASE(get().mutex_) { get().mutex_.unlock(); }
  /// The thread is not here, and what it had not written is the parent's to write.
  static void in_child() TUTTI_RELEASE(get().mutex_) {
    get().begin_again();
    get().mutex_.unlock();
  }
  void begin_again() TUTTI_REQUIRES(mutex_) {
    process_.store(::getpid(), std::memory_order_relaxed);
    running_ = is_writer_;  // unless it was the callback that forked
    calling_ = calling_ && is_writer_;
    lines_.clear();
    dropped_ = 0;
    written_ = queued_ - (is_writer_ ? 1 : 0);
    new (&changed_) ConditionVariable;  // not destroyed: the old one believes that somebody waits
  }

  static thread_local bool is_writer_;

  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<Line> lines_ TUTTI_GUARDED_BY(mutex_);
  std::uint64_t queued_ TUTTI_GUARDED_BY(mutex_) = 0;   // since the beginning, those written included
  std::uint64_t written_ TUTTI_GUARDED_BY(mutex_) = 0;  // of them; the next one may be on its way
  std::uint64_t dropped_ TUTTI_GUARDED_BY(mutex_) = 0;
  Sink sink_ TUTTI_GUARDED_BY(mutex_);
  std::string path_ TUTTI_GUARDED_BY(mutex_);
  bool running_ TUTTI_GUARDED_BY(mutex_) = false;
  bool calling_ TUTTI_GUARDED_BY(mutex_) = false;  // the callback has a line
  bool ended_ TUTTI_GUARDED_BY(mutex_) = false;
  std::atomic<pid_t> process_{::getpid()};  // relaxed: changed in a child, where only one thread is
};

thread_local bool Log::is_writer_ = false;

}  // namespace

void log_line(LogLevel level, LogSource source, std::string_view text) {
  Log::get().add(level, stamped(level, source, text));
}

bool log_drain(std::chrono::milliseconds timeout) { return Log::get().drain(timeout); }

void log_configure(LogLevel level, const std::string& path) {
  log_detail::threshold.store(static_cast<int>(level), std::memory_order_relaxed);
  std::string expanded = path;
  if (const auto at = expanded.find("%p"); at != std::string::npos) expanded.replace(at, 2, std::to_string(getpid()));
  Log::get().set_file(expanded);
}

void log_set_callback(LogCallback callback, void* user) { Log::get().set_callback(callback, user); }

}  // namespace tutti

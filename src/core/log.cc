#include "core/log.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "core/mutex.h"

namespace tutti {

namespace log_detail {
std::atomic<int> threshold{static_cast<int>(LogLevel::kWarn)};
}

namespace {

struct Sink {
  Mutex mutex;
  std::FILE* file TUTTI_GUARDED_BY(mutex) = nullptr;  // nullptr: stderr
  std::string path TUTTI_GUARDED_BY(mutex);
  LogCallback callback TUTTI_GUARDED_BY(mutex) = nullptr;
  void* user TUTTI_GUARDED_BY(mutex) = nullptr;
};

// Never destroyed: library threads may log while the process ends.
Sink& sink() {
  static Sink* const instance = new Sink;
  return *instance;
}

const char* label(LogLevel level) {
  static constexpr const char* kLabels[] = {"error", "warn", "info", "debug", "trace"};
  return kLabels[static_cast<int>(level)];
}

}  // namespace

void log_line(LogLevel level, LogSource source, std::string_view text) {
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
  static thread_local bool in_callback = false;
  if (in_callback) {  // the callback itself made a call that logs: its lock is held by this very thread
    std::fprintf(stderr, "%s\n", line.c_str());
    return;
  }
  Sink& out = sink();
  const MutexLock lock(out.mutex);
  if (out.callback != nullptr) {
    in_callback = true;
    out.callback(static_cast<int>(level), line.c_str(), out.user);
    in_callback = false;
    return;
  }
  line += '\n';
  std::FILE* const file = out.file != nullptr ? out.file : stderr;
  std::fwrite(line.data(), 1, line.size(), file);
  std::fflush(file);
}

void log_configure(LogLevel level, const std::string& path) {
  log_detail::threshold.store(static_cast<int>(level), std::memory_order_relaxed);
  std::string expanded = path;
  if (const auto at = expanded.find("%p"); at != std::string::npos) expanded.replace(at, 2, std::to_string(getpid()));
  Sink& out = sink();
  const MutexLock lock(out.mutex);
  if (expanded == out.path) return;
  if (out.file != nullptr) std::fclose(out.file);
  out.file = nullptr;
  out.path = expanded;
  if (expanded.empty()) return;
  out.file = std::fopen(expanded.c_str(), "ae");
  if (out.file == nullptr)
    std::fprintf(stderr, "tutti warn: log file %s cannot be opened (errno %d), logging to stderr\n", expanded.c_str(),
                 errno);
}

void log_set_callback(LogCallback callback, void* user) {
  Sink& out = sink();
  const MutexLock lock(out.mutex);
  out.callback = callback;
  out.user = user;
}

}  // namespace tutti

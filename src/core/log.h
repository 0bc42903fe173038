// The log: one sink a process, stderr or a file, never stdout. A line carries level, rank and communicator in front.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <string>
#include <string_view>
#include <utility>

#include "core/units.h"

namespace tutti {

enum class LogLevel : int { kError = 0, kWarn = 1, kInfo = 2, kDebug = 3, kTrace = 4 };

/// Called for each line instead of stderr; may be called by any library thread, one at a time.
using LogCallback = void (*)(int level, const char* line, void* user);

namespace log_detail {
extern std::atomic<int> threshold;  // relaxed both sides: a level that changes late is harmless
}

/// One relaxed load and a predicted branch.
inline bool log_enabled(LogLevel level) {
  return static_cast<int>(level) <= log_detail::threshold.load(std::memory_order_relaxed);
}

/// Who speaks: the rank and the communicator's name; kNoRank and "" outside of a communicator.
struct LogSource {
  Rank rank = kNoRank;
  std::string_view comm;
};

/// Writes one line. Thread-safe; a line is never torn.
void log_line(LogLevel level, LogSource source, std::string_view text);

template <class... Args>
void log(LogLevel level, LogSource source, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_line(level, source, fmt::format(format, std::forward<Args>(args)...));
}

/// Sets level and destination (empty path: stderr; "%p" in the path becomes the process id). A file that cannot be
/// opened is reported on stderr, which is then used.
void log_configure(LogLevel level, const std::string& path);
/// nullptr: back to stderr or the file.
void log_set_callback(LogCallback callback, void* user);

}  // namespace tutti

// The log: one sink a process, stderr or a file, never stdout. A line carries level, rank and communicator in front.
//
// Whoever logs only queues a line. A thread of the log's own, started with the first line, writes it or calls the
// application's callback: neither can hold up a call, an abort or the service thread, however slow it is. The queue is
// bounded; lines that find no room are counted, and the count is logged when there is room again.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "core/units.h"

namespace tutti {

enum class LogLevel : int { kError = 0, kWarn = 1, kInfo = 2, kDebug = 3, kTrace = 4 };

/// Called for each line instead of stderr, by the log's thread. What it logs itself goes to stderr.
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

/// How long the end of a communicator or of the process waits for lines to be written.
inline constexpr std::chrono::milliseconds kLogTimeout{100};
/// How long the end of a call that has failed waits for that.
inline constexpr std::chrono::milliseconds kLogTimeoutOfCalls{20};

/// Queues one line. Any thread; waits for no line to be written. A line is never torn.
void log_line(LogLevel level, LogSource source, std::string_view text);

template <class... Args>
void log(LogLevel level, LogSource source, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_line(level, source, fmt::format(format, std::forward<Args>(args)...));
}

/// Waits until all lines logged so far are written, at most so long. False: some are not. At once in the callback.
bool log_drain(std::chrono::milliseconds timeout);

/// Sets level and destination (empty path: stderr; "%p" in the path becomes the process id). A file that cannot be
/// opened, or is a link outside of /dev, is reported on stderr, which is then used. Does not wait for lines to be
/// written.
void log_configure(LogLevel level, const std::string& path);
/// nullptr: back to stderr or the file. Lines logged before still go where they went, if that takes no longer than a
/// second. On return the old callback is not running any more, unless it is what calls this.
void log_set_callback(LogCallback callback, void* user);

}  // namespace tutti

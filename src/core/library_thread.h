// Threads that the library starts.
#pragma once

#include <functional>
#include <thread>

#include "core/status.h"

namespace tutti {

/// Starts a thread that the system shows by this name (at most 15 characters). The application's signals are for the
/// application's threads: all are blocked in this one. kSystemError: the system gives no thread; nothing has run, and
/// the caller's own signals are as they were. `main` must not throw. Any thread.
Status start_thread(const char* name, std::function<void()> main, std::thread* thread);
/// Whether start_thread() started the calling thread.
bool is_library_thread();

}  // namespace tutti

// The last error of each thread, for tuttiGetLastError.
#pragma once

#include <string>

#include "core/status.h"

namespace tutti {

/// Keeps `status` as this thread's last error on `object` (a communicator; nullptr for a call that takes none, as those
/// of groups and streams) and returns its code as the C API's.
int remember_error(const Status& status, const void* object) noexcept;

/// The text of the thread's last error, unless that concerns another object than `object`; nullptr asks for any. "no
/// error" if there is none. It is valid until the thread's next call of these functions.
const char* last_error(const void* object) noexcept;
/// Keeps the text of `status` and returns it. It is for a communicator's first cause.
const char* hold_text(const Status& status) noexcept;
/// Keeps `text`, which is no error's, and returns it.
const char* hold_text(std::string text);

}  // namespace tutti

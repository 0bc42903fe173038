// What went wrong last, per thread, for tuttiGetLastError.
#pragma once

#include <string>

#include "core/status.h"

namespace tutti {

/// Keeps `status` as this thread's last error on `object` (a communicator; nullptr for a call that takes none, as those
/// of groups and streams) and gives its code back as the C API's.
int remember_error(const Status& status, const void* object) noexcept;

/// The thread's last text, unless it concerns another object than `object`; nullptr asks for any. "no error" where
/// there is none. Valid until the next call here.
const char* last_error(const void* object) noexcept;
/// Makes the text of `status` the answer, for a communicator's first cause.
const char* hold_text(const Status& status) noexcept;
/// Makes `text`, which tells of no error, the answer.
const char* hold_text(std::string text);

}  // namespace tutti

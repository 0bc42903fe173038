// What went wrong last, per thread, for tuttiGetLastError.
#pragma once

#include <string>

#include "core/status.h"

namespace tutti {

class Communicator;

/// Keeps `status` as this thread's last error on `object` (a communicator, or nullptr) and gives its code back as the C
/// API's.
int remember_error(const Status& status, const void* object);

/// The thread's last text for `object`; nullptr: for any. "no error" where there is none. Valid until the next call
/// here.
const char* last_error(const void* object);
/// Makes `text` the answer, for a communicator's first cause.
const char* hold_text(std::string text);

}  // namespace tutti

// What --make-secret does: it makes a file for TUTTI_SECRET_FILE.
#pragma once

#include <string>

namespace tutti::perf {

/// Writes 32 bytes that nobody can guess, as a line of text, into a new file that its owner alone may read. If it
/// returns false, `text` says why, and a file that was there is as it was.
bool make_secret_file(const std::string& path, std::string* text);

}  // namespace tutti::perf

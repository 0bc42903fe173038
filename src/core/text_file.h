// Small files of text, such as those in which Linux describes the machine.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace tutti {

/// Returns the first `most` bytes of a file; nothing if it cannot be read. No program that another thread starts
/// meanwhile inherits its descriptor, as it would that of a stream of the standard library.
std::optional<std::string> read_text_file(const std::string& path, std::size_t most);

}  // namespace tutti

// Makes texts of other processes fit to be shown.
#pragma once

#include <string>
#include <string_view>

namespace tutti {

/// The text with a question mark for each control character: none can end a line of the log early, and begin one that
/// looks like another's, or speak to a terminal. UTF-8 stays.
std::string printable(std::string_view text);

}  // namespace tutti

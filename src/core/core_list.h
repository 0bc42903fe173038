// Lists of cores as text, such as "0,2-3": in settings, and told to other ranks.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// Ascending where the text is; false: no such list, or a core of CPU_SETSIZE and more. Appends.
bool parse_core_list(const std::string& text, std::vector<int>* cores);
/// `cores` ascending. Empty where the text would have more than `longest` characters.
std::string core_list_text(std::span<const int> cores, std::size_t longest = 256);

/// The cores that the calling thread may use, ascending.
std::vector<int> usable_core_list();

/// How many cores a rank may count on for itself and those whose lists these are (its own at `own`; what is no list is
/// left out): all that any of them may use, unless more ranks than its own list has cores have that same list.
int cores_among(std::span<const std::string_view> lists, std::size_t own);

}  // namespace tutti

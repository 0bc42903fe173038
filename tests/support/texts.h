// What tests ask of the texts of errors.
#pragma once

#include <tutti/tutti.h>

#include <string>

namespace tutti::test {

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline std::string last_error(tuttiComm_t comm = nullptr) { return tuttiGetLastError(comm); }

}  // namespace tutti::test

// For test programs whose own functions stand in front of the system's.
#pragma once

#include <dlfcn.h>

namespace tutti::test {

/// The function of that name that the program's own hides. `Function` is a pointer to it.
template <class Function>
Function next_function(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace tutti::test

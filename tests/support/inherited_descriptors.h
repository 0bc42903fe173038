// What a program inherits that this process starts.
#pragma once

#include <cstdio>

namespace tutti::test {

/// How many descriptors such a program has.
inline int inherited_descriptors() {
  FILE* const program = ::popen("ls /proc/self/fd | wc -l", "r");
  int count = -1;
  if (program == nullptr || std::fscanf(program, "%d", &count) != 1) count = -1;
  if (program != nullptr) ::pclose(program);
  return count;
}

}  // namespace tutti::test

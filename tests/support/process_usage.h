// What this process has of the system, for tests that count it.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace tutti::test {

/// With the one by which they are counted.
inline std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

/// Of all kinds: TCP and those within the host.
inline int open_sockets() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the descriptor of the iterator itself
    if (std::filesystem::read_symlink(entry, gone).string().starts_with("socket:")) ++count;
  }
  return count;
}

/// Of memory that it really has.
inline long resident_kilobytes() {
  long whole = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> whole >> resident;
  return resident * (::sysconf(_SC_PAGESIZE) / 1024);
}

}  // namespace tutti::test

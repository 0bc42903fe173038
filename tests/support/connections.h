// The TCP connections of a test's own process.
#pragma once

#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <functional>
#include <vector>

namespace tutti::test {

/// The descriptors of this process's TCP connections that are made.
inline std::vector<int> connections() {
  std::vector<int> found;
  DIR* const list = ::opendir("/proc/self/fd");
  if (list == nullptr) return found;
  while (const dirent* const entry = ::readdir(list)) {
    const int descriptor = std::atoi(entry->d_name);
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    if (descriptor <= 2 || ::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (peer.ss_family == AF_INET || peer.ss_family == AF_INET6) found.push_back(descriptor);
  }
  ::closedir(list);
  return found;
}

/// Shuts down, as a middlebox would, those of these connections that are chosen. Returns how many.
inline int cut_connections(const std::function<bool(int descriptor)>& chosen = [](int) { return true; }) {
  int cut = 0;
  for (const int descriptor : connections())
    if (chosen(descriptor) && ::shutdown(descriptor, SHUT_RDWR) == 0) ++cut;
  return cut;
}

}  // namespace tutti::test

// The TCP connections of a test's own process.
#pragma once

#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <functional>

namespace tutti::test {

/// Shuts down the TCP connections of this process that are made, as a middlebox would, or those of them that are
/// chosen; how many.
inline int cut_connections(const std::function<bool()>& chosen = [] { return true; }) {
  int cut = 0;
  DIR* const list = ::opendir("/proc/self/fd");
  if (list == nullptr) return 0;
  while (const dirent* const entry = ::readdir(list)) {
    const int descriptor = std::atoi(entry->d_name);
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    if (descriptor <= 2 || ::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    const bool tcp = peer.ss_family == AF_INET || peer.ss_family == AF_INET6;
    if (tcp && chosen() && ::shutdown(descriptor, SHUT_RDWR) == 0) ++cut;
  }
  ::closedir(list);
  return cut;
}

}  // namespace tutti::test

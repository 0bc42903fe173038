// The TCP connections of a test's own process.
#pragma once

#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <functional>

namespace tutti::test {

/// Calls `use` with the descriptor of each TCP connection of this process that is made. Takes no memory of the test's.
template <class Use>
void for_each_connection(const Use& use) {
  DIR* const list = ::opendir("/proc/self/fd");
  if (list == nullptr) return;
  while (const dirent* const entry = ::readdir(list)) {
    const int descriptor = std::atoi(entry->d_name);
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    if (descriptor <= 2 || ::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (peer.ss_family == AF_INET || peer.ss_family == AF_INET6) use(descriptor);
  }
  ::closedir(list);
}

/// Shuts down, as a middlebox would, those of these connections that are chosen. Returns how many.
inline int cut_connections(const std::function<bool(int descriptor)>& chosen = [](int) { return true; }) {
  int cut = 0;
  for_each_connection([&](int descriptor) {
    if (chosen(descriptor) && ::shutdown(descriptor, SHUT_RDWR) == 0) ++cut;
  });
  return cut;
}

}  // namespace tutti::test

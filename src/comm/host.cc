#include "comm/host.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace tutti {

std::string host_id(const Settings& settings) {
  if (!settings.host_id.empty()) return settings.host_id;
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat net {};
  if (boot.empty() || ::stat("/proc/self/ns/net", &net) != 0) return "name:" + host_name();
  return fmt::format("{}:{}", boot, net.st_ino);
}

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "unknown";
  return name;
}

}  // namespace tutti

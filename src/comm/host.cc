#include "comm/host.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace tutti {
namespace {

std::string boot_id() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return boot;
}

}  // namespace

std::uint64_t kernel_id() {
  std::uint64_t number = 0;
  for (const char digit : boot_id()) {  // 32 hexadecimal digits in groups, random: half of them will do
    if (digit == '-') continue;
    number = number << 4 | static_cast<std::uint64_t>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
  }
  return number;
}

std::string host_id(const Settings& settings) {
  if (!settings.host_id.empty()) return settings.host_id;
  const std::string boot = boot_id();
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

#include "net/host_identity.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "core/fingerprint.h"
#include "net/socket.h"

namespace tutti {
namespace {

/// The boot id is empty if Linux does not give it. A shortage of descriptors is an error, because without the id
/// the rank would count as one of another host.
Status read_boot_id(std::string* boot) {
  constexpr const char* kPath = "/proc/sys/kernel/random/boot_id";
  const Descriptor file(::open(kPath, O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    Status why = fail(Code::kSystemError, "cannot open {}: {}", kPath, errno_text());
    return is_lack(why) ? why : Status();
  }
  std::array<char, 64> text{};
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  *boot = std::string(text.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  if (const std::size_t end = boot->find('\n'); end != std::string::npos) boot->resize(end);
  return {};
}

/// A boot id is 32 random hexadecimal digits in groups, of which the number keeps the last 16.
std::uint64_t number_of(const std::string& boot) {
  std::uint64_t number = 0;
  for (const char digit : boot) {
    if (digit == '-') continue;
    number = number << 4 | static_cast<std::uint64_t>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
  }
  return number;
}

}  // namespace

Status identify_host(const Settings& settings, HostIdentity* identity) {
  std::string boot;
  TUTTI_TRY(read_boot_id(&boot));
  identity->boot_id = number_of(boot);
  struct stat network {};
  if (!settings.host_id.empty()) {
    identity->host = settings.host_id;
  } else if (boot.empty() || ::stat("/proc/self/ns/net", &network) != 0) {
    identity->host = "name:" + host_name();
  } else {
    // 15 characters, for which a string takes no memory of its own: each process keeps this text of each host.
    identity->host = fmt::format("{:015x}", mix64(identity->boot_id ^ mix64(network.st_ino)) >> 4);
  }
  return {};
}

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "unknown";
  return name;
}

}  // namespace tutti

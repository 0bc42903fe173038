#include "secret_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace tutti::perf {

bool make_secret_file(const std::string& path, std::string* text) {
  const auto failed = [&](const char* what) {
    *text = std::string("--make-secret: cannot ") + what + " " + path + ": " + std::strerror(errno);
    return false;
  };
  std::array<unsigned char, 32> random{};
  if (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
    return failed("find a secret for");
  std::string line;
  for (const unsigned char byte : random)
    for (const unsigned digit : {byte / 16u, byte % 16u}) line += "0123456789abcdef"[digit];
  line += '\n';
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return failed("create");
  errno = ENOSPC;  // the reason if only a part is written, for which write() sets no errno
  const bool written = write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  if (written && fsync(file) == 0 && close(file) == 0) return true;
  failed("write");
  unlink(path.c_str());
  return false;
}

}  // namespace tutti::perf

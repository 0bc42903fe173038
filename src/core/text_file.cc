#include "core/text_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace tutti {

std::optional<std::string> read_text_file(const std::string& path, std::size_t most) {
  std::string text(most, '\0');
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  std::size_t size = 0;
  ssize_t got = 1;
  while (size < most && got != 0) {
    got = ::read(file, text.data() + size, most - size);
    if (got < 0 && errno != EINTR) break;
    size += got > 0 ? static_cast<std::size_t>(got) : 0;
  }
  ::close(file);
  if (got < 0) return {};
  text.resize(size);
  return text;
}

}  // namespace tutti

#include "kernels/cache.h"

#include <algorithm>
#include <string>

#include "core/text_file.h"

namespace tutti {
namespace {

constexpr std::size_t kUntold = std::size_t{32} << 20;

/// "32768K", "1M" or a number of bytes; 0: not understood.
std::size_t parse_size(const std::string& text) {
  std::size_t value = 0, at = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9' && value < kUntold; ++at)
    value = value * 10 + static_cast<std::size_t>(text[at] - '0');
  const std::string unit = text.substr(at, text.find('\n') - at);
  if (unit == "K") return value << 10;
  if (unit == "M") return value << 20;
  return unit.empty() ? value : 0;
}

Bytes read_last_level() {
  std::size_t largest = 0;
  for (int index = 0; index < 8; ++index) {
    const std::string path = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size";
    if (const auto text = read_text_file(path, 64)) largest = std::max(largest, parse_size(*text));
  }
  return Bytes{largest == 0 ? kUntold : largest};
}

/// Without memory the size is unknown. Nothing is thrown where other threads wait for the value: that of the thread
/// sanitizer does not wake them then.
Bytes last_level_or_untold() noexcept {
  try {
    return read_last_level();
  } catch (...) {
    return Bytes{kUntold};
  }
}

}  // namespace

Bytes last_level_cache() {
  static const Bytes size = last_level_or_untold();
  return size;
}

}  // namespace tutti

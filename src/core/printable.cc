#include "core/printable.h"

namespace tutti {

std::string printable(std::string_view text) {
  std::string shown(text);
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const auto byte = static_cast<unsigned char>(shown[i]);
    // U+0080 to U+009F are C2 80 to C2 9F.
    const bool upper = byte == 0xc2 && i + 1 < shown.size() && static_cast<unsigned char>(shown[i + 1]) >= 0x80 &&
                       static_cast<unsigned char>(shown[i + 1]) < 0xa0;
    if (upper) shown[i + 1] = '?';
    if (upper || byte < 0x20 || byte == 0x7f) shown[i] = '?';
  }
  return shown;
}

}  // namespace tutti

// A status on its way to the other ranks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "core/status.h"

namespace tutti {

/// Plain data. A longer text is cut; what another rank sent is read like any message.
struct RankStatus {
  std::uint32_t code = 0;
  char text[252] = {};

  static RankStatus of(const Status& status) {
    RankStatus made;
    made.code = static_cast<std::uint32_t>(status.code());
    const std::string text = status.ok() ? std::string() : status.text();
    std::memcpy(made.text, text.data(), std::min(text.size(), sizeof made.text - 1));
    return made;
  }
  int severity() const { return code == 0 ? 2 : (code == static_cast<std::uint32_t>(Code::kTimeout) ? 1 : 0); }
  Status from(int rank) const {
    if (code == 0) return {};
    const bool known = code <= static_cast<std::uint32_t>(Code::kUnsupported);
    const std::size_t length = ::strnlen(text, sizeof text);
    return fail(known ? static_cast<Code>(code) : Code::kRemoteError, "{} (found by rank {})",
                std::string(text, length), rank);
  }
};

}  // namespace tutti

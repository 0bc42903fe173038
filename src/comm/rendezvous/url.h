// URLs that ranks meet by.
#pragma once

#include <cstdint>
#include <string>

#include "core/status.h"

namespace tutti {

enum class UrlScheme : std::uint8_t { kEnv, kTcp, kFile };

struct RendezvousUrl {
  UrlScheme scheme = UrlScheme::kEnv;
  std::string host;  ///< kTcp
  std::uint16_t port = 0;
  std::string path;  ///< kFile, absolute
};

/// "env://", "tcp://host:port", "tcp://[2001:db8::1]:port", "file:///path"; anything else is kInvalidArgument and says
/// what would be right.
Status parse_url(const std::string& text, RendezvousUrl* url);

}  // namespace tutti

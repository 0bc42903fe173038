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

/// Parses "env://", "tcp://host:port", "tcp://[2001:db8::1]:port" or "file:///path". For anything else it returns
/// kInvalidArgument, with a text that says what would be right.
Status parse_url(const std::string& text, RendezvousUrl* url);

}  // namespace tutti

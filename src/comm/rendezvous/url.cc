#include "comm/rendezvous/url.h"

#include <charconv>

namespace tutti {
namespace {

Status parse_host_and_port(const std::string& text, const std::string& rest, RendezvousUrl* url) {
  const std::size_t colon = rest.rfind(':');
  const bool brackets = rest.starts_with('[');
  const std::size_t end = brackets ? rest.find(']') : colon;
  unsigned port = 0;
  const char* const last = rest.data() + rest.size();
  const bool shaped = colon != std::string::npos && end != std::string::npos && (!brackets || end + 1 == colon) &&
                      std::from_chars(rest.data() + colon + 1, last, port).ptr == last;
  url->host = shaped ? rest.substr(brackets ? 1 : 0, end - (brackets ? 1 : 0)) : "";
  if (url->host.empty() || port < 1 || port > 65535 || (!brackets && url->host.find(':') != std::string::npos))
    return fail(Code::kInvalidArgument, "URL \"{}\": after tcp:// comes a host, a colon and a port (1 to 65535)", text);
  url->port = static_cast<std::uint16_t>(port);
  return {};
}

}  // namespace

Status parse_url(const std::string& text, RendezvousUrl* url) {
  *url = RendezvousUrl{};
  const std::size_t at = text.find("://");
  const std::string scheme = text.substr(0, at == std::string::npos ? 0 : at);
  const std::string rest = at == std::string::npos ? "" : text.substr(at + 3);
  if (scheme == "env" && rest.empty()) return {};
  if (scheme == "tcp") {
    url->scheme = UrlScheme::kTcp;
    return parse_host_and_port(text, rest, url);
  }
  if (scheme == "file" && rest.starts_with('/') && rest.size() > 1 && !rest.ends_with('/')) {
    url->scheme = UrlScheme::kFile;
    url->path = rest;
    return {};
  }
  return fail(Code::kInvalidArgument, "URL \"{}\": it must be env://, tcp://host:port or file:///path", text);
}

}  // namespace tutti

// What people write: URLs, settings, host lists, interface rules. The first byte chooses the parser.
#include "bytes.h"
#include "comm/rendezvous/launcher.h"
#include "comm/rendezvous/pmi1.h"
#include "comm/rendezvous/url.h"
#include "core/settings.h"
#include "net/address.h"
#include "net/tls_credentials.h"

namespace {

using namespace tutti;

void feed_url(const std::string& text) {
  RendezvousUrl url;
  if (!parse_url(text, &url).ok()) return;
  fuzz::demand(url.scheme != UrlScheme::kTcp || (url.port != 0 && !url.host.empty()), "a host and a port");
  fuzz::demand(url.scheme != UrlScheme::kFile || url.path.starts_with('/'), "an absolute path");
}

void feed_setting(std::size_t which, const std::string& text) {
  const SettingInfo& info = setting_table()[which % setting_table().size()];
  Settings settings;
  if (!info.parse(text, &settings).ok()) return;
  fuzz::demand(settings.port_first <= settings.port_last, "a range of ports");
  fuzz::demand(settings.shm_slots >= 2 && settings.shm_slots <= 64, "a number of slots");
  fuzz::demand(settings.progress_cores.size() < 1'000'000, "a list of cores of a sane size");
}

void feed_identity(const std::string& text) {
  Role role{};
  KeyId id{};
  if (parse_tls_identity(text, &role, &id)) fuzz::demand(tls_identity(role, id) == text, "one writing an identity");
}

void feed_pmi(const std::string& text) {
  std::string_view value;
  const bool found = pmi_value(text, "rc", &value);
  fuzz::demand(!found || value.find(' ') == std::string_view::npos, "values end at a space");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Bytes input(data, size);
  const unsigned which = input.u8();
  if (which >= 64) return feed_setting(which, input.text()), 0;
  const std::string text = input.text();
  switch (which % 5) {
    case 0:
      feed_url(text);
      break;
    case 1:
      feed_identity(text);
      break;
    case 2:
      fuzz::demand(first_slurm_host(text).size() <= text.size() + 32, "a host is not longer than the list");
      break;
    case 3:
      feed_pmi(text);
      break;
    default:
      interface_chosen(text, "eth0");
      break;
  }
  return 0;
}

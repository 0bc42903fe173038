#include "net/tls_credentials.h"

#include <memory>
#include <utility>

namespace tutti {

std::string tls_identity(Role role, const KeyId& id) {
  return fmt::format("{}:{}", static_cast<unsigned>(role), to_hex(id));
}

bool parse_tls_identity(std::string_view identity, Role* role, KeyId* id) {
  if (identity.size() < 2 || identity[1] != ':') return false;
  const int value = identity[0] - '0';
  if (value < static_cast<int>(Role::kJoin) || value > static_cast<int>(Role::kData)) return false;
  *role = static_cast<Role>(value);
  return from_hex(identity.substr(2), *id);
}

Status tls_key(std::string_view identity, const Key& secret, TlsKey* key) {
  Key mac;
  TUTTI_TRY(hmac_sha256(secret, {bytes_of("tutti tls psk"), bytes_of(identity)}, &mac));
  *key = mac;
  return {};
}

Status encrypt_as_client(Role role, const KeyId& id, const Key& secret, Socket* socket) {
  const std::string identity = tls_identity(role, id);
  TlsKey key{};
  TUTTI_TRY(tls_key(identity, secret, &key));
  std::unique_ptr<TlsSession> session;
  const Status made = TlsSession::client(socket->descriptor(), identity, key, &session);
  wipe(key);
  if (made.ok()) socket->encrypt(std::move(session));
  return made;
}

Status encrypt_as_server(const KeyLookup& lookup, Socket* socket, std::shared_ptr<const TlsName>* named) {
  const auto name = std::make_shared<TlsName>();
  *named = name;
  const auto find = [lookup, name](std::string_view identity, TlsKey* key) {
    Key secret{};
    return parse_tls_identity(identity, &name->role, &name->id) && lookup(name->role, name->id, &secret) &&
           tls_key(identity, secret, key).ok();
  };
  std::unique_ptr<TlsSession> session;
  TUTTI_TRY(TlsSession::server(socket->descriptor(), find, &session));
  socket->encrypt(std::move(session));
  return {};
}

}  // namespace tutti

// TLS credentials: the identity that a TLS handshake shows in public, and the key that it proves. Both are made of the
// secret that the handshake inside TLS proves again.
#pragma once

#include <string>
#include <string_view>

#include "net/handshake.h"
#include "net/socket.h"
#include "net/tls_session.h"

namespace tutti {

/// "4:" and the key id in hexadecimal digits: role and name of the secret, in public.
std::string tls_identity(Role role, const KeyId& id);
/// False: not made by tls_identity().
bool parse_tls_identity(std::string_view identity, Role* role, KeyId* id);
/// Derives the key of this identity, which is the key of nothing else.
Status tls_key(std::string_view identity, const Key& secret, TlsKey* key);

/// All that goes over the socket is encrypted from now on; its end dialled. kRemoteError etc. come from send and
/// receive.
Status encrypt_as_client(Role role, const KeyId& id, const Key& secret, Socket* socket);
/// What the other end named for its key: the handshake inside must name the same.
struct TlsName {
  Role role{};
  KeyId id{};
};
/// The other end, which was accepted. `named` is filled in once the other end has said it.
Status encrypt_as_server(const KeyLookup& lookup, Socket* socket, std::shared_ptr<const TlsName>* named);

}  // namespace tutti

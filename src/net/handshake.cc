#include "net/handshake.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tutti {
namespace {

// Hello: magic and version (8), role (2), zero (6), key id (16), client's nonce (32).
constexpr char kHelloMagic[8] = {'t', 'u', 't', 't', 'i', 'r', 'v', 1};
constexpr std::size_t kRoleAt = 8;
constexpr std::size_t kZeroAt = 10;
constexpr std::size_t kIdAt = 16;
constexpr std::size_t kHelloNonceAt = 32;

constexpr char kOtherSecret[] =
    "the other end has another secret (TUTTI_SECRET_FILE: the same on all ranks, or on none)";

Status refused(const char* why) { return fail(Code::kRemoteError, "the handshake failed: {}", why); }

}  // namespace

Handshake Handshake::client(Role role, const KeyId& id, const Key& secret) {
  Handshake made;
  made.is_client_ = true;
  made.role_ = role;
  made.id_ = id;
  made.secret_ = secret;
  return made;
}

Handshake Handshake::server(KeyLookup lookup) {
  Handshake made;
  made.lookup_ = std::move(lookup);
  made.state_ = State::kWaitHello;
  return made;
}

Status Handshake::start(std::vector<std::byte>* out) {
  if (!is_client_) return {};
  std::memcpy(hello_.data(), kHelloMagic, sizeof(kHelloMagic));
  hello_[kRoleAt] = static_cast<std::byte>(role_);
  std::copy(id_.begin(), id_.end(), hello_.begin() + kIdAt);
  TUTTI_TRY(random_bytes(std::span(hello_).subspan(kHelloNonceAt)));
  out->insert(out->end(), hello_.begin(), hello_.end());
  state_ = State::kWaitChallenge;
  return {};
}

std::size_t Handshake::wants() const {
  switch (state_) {
    case State::kWaitHello:
      return kHelloSize;
    case State::kWaitChallenge:
      return kChallengeSize;
    case State::kWaitProof:
      return kProofSize;
    default:
      return 0;
  }
}

Status Handshake::consume(ByteView message, std::vector<std::byte>* out) {
  if (message.size() != wants()) return refused("a message of the wrong size");
  switch (state_) {
    case State::kWaitHello:
      return take_hello(message, out);
    case State::kWaitChallenge:
      return take_challenge(message, out);
    case State::kWaitProof:
      return take_proof(message);
    default:
      return refused("a message out of turn");
  }
}

Status Handshake::take_hello(ByteView message, std::vector<std::byte>* out) {
  std::copy(message.begin(), message.end(), hello_.begin());
  if (std::memcmp(hello_.data(), kHelloMagic, sizeof(kHelloMagic)) != 0) return refused("not this protocol or version");
  const auto role = std::to_integer<unsigned>(hello_[kRoleAt]);
  if (role < 1 || role > static_cast<unsigned>(Role::kData)) return refused("an unknown purpose");
  const auto zero = std::span(hello_).subspan(kZeroAt, kIdAt - kZeroAt);
  if (std::any_of(zero.begin(), zero.end(), [](std::byte b) { return b != std::byte{0}; }))
    return refused("not this protocol or version");
  role_ = static_cast<Role>(role);
  std::copy_n(hello_.begin() + kIdAt, id_.size(), id_.begin());
  if (!lookup_(role_, id_, &secret_)) return refused("asked for something that is not served here");
  TUTTI_TRY(random_bytes(server_nonce_));
  Key mac;
  TUTTI_TRY(sign("tutti server", &mac));
  out->insert(out->end(), server_nonce_.begin(), server_nonce_.end());
  out->insert(out->end(), mac.begin(), mac.end());
  state_ = State::kWaitProof;
  return {};
}

Status Handshake::take_challenge(ByteView message, std::vector<std::byte>* out) {
  // Who connects to a port of this host that nobody listens on may be given that very port for his own end.
  if (std::equal(message.begin(), message.end(), hello_.begin(), hello_.end()))
    return refused("the connection leads back to itself");
  std::copy_n(message.begin(), server_nonce_.size(), server_nonce_.begin());
  Key mac;
  TUTTI_TRY(sign("tutti server", &mac));
  if (!equal_secret(mac, message.subspan(server_nonce_.size()))) return refused(kOtherSecret);
  TUTTI_TRY(sign("tutti client", &mac));
  out->insert(out->end(), mac.begin(), mac.end());
  return finish();
}

Status Handshake::take_proof(ByteView message) {
  Key mac;
  TUTTI_TRY(sign("tutti client", &mac));
  if (!equal_secret(mac, message)) return refused(kOtherSecret);
  return finish();
}

// All signed texts have one layout: a label of 12 characters, the hello, the server's nonce.
Status Handshake::sign(const char* label, Key* mac) const {
  return hmac_sha256(secret_, {bytes_of(label), hello_, server_nonce_}, mac);
}

Status Handshake::finish() {
  TUTTI_TRY(sign("tutti key c2", &client_key_));
  TUTTI_TRY(sign("tutti key s2", &server_key_));
  wipe(secret_);
  state_ = State::kDone;
  return {};
}

}  // namespace tutti

// The handshake: both ends of a connection, of any role, prove that they know the same secret before either believes
// anything. HMAC-SHA256 challenge and response; what is signed names the direction and holds both nonces, so that
// neither reflection nor replay helps. Messages have fixed sizes. docs/design/rendezvous.md shows them field by field.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "net/crypto.h"

namespace tutti {

/// What a connection is for. Part of what is signed: one kind cannot be passed off as another.
enum class Role : std::uint16_t { kJoin = 1, kControl = 2, kAskId = 3, kData = 4 };

/// The secret of a key id, in that role; false: not served here.
using KeyLookup = std::function<bool(Role role, const KeyId& id, Key* secret)>;

/// One end's state. No input or output of its own: whoever owns the connection feeds it whole messages.
class Handshake {
 public:
  static constexpr std::size_t kHelloSize = 64;
  static constexpr std::size_t kChallengeSize = 64;
  static constexpr std::size_t kProofSize = 32;

  static Handshake client(Role role, const KeyId& id, const Key& secret);
  static Handshake server(KeyLookup lookup);

  /// The client's first message; nothing for a server.
  Status start(std::vector<std::byte>* out);
  /// Size of the next message from the other end; 0: done.
  std::size_t wants() const;
  /// Takes a message of exactly wants() bytes, appends the answer. A failure means: close, the other end has not proved
  /// what it should.
  Status consume(ByteView message, std::vector<std::byte>* out);

  bool is_client() const { return is_client_; }
  const KeyLookup& lookup() const { return lookup_; }
  bool done() const { return state_ == State::kDone; }
  Role role() const { return role_; }
  const KeyId& key_id() const { return id_; }
  /// Once done: keys of this connection alone, one per direction.
  const Key& send_key() const { return is_client_ ? client_key_ : server_key_; }
  const Key& receive_key() const { return is_client_ ? server_key_ : client_key_; }

 private:
  enum class State { kIdle, kWaitHello, kWaitChallenge, kWaitProof, kDone };
  Handshake() = default;
  Status take_hello(ByteView message, std::vector<std::byte>* out);
  Status take_challenge(ByteView message, std::vector<std::byte>* out);
  Status take_proof(ByteView message);
  Status sign(const char* label, Key* mac) const;
  Status finish();

  State state_ = State::kIdle;
  bool is_client_ = false;
  Role role_ = Role::kJoin;
  KeyId id_{};
  Key secret_{};
  KeyLookup lookup_;
  std::array<std::byte, kHelloSize> hello_{};
  Key server_nonce_{};
  Key client_key_{};
  Key server_key_{};
};

}  // namespace tutti

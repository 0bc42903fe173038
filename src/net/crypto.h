// The few cryptographic primitives that joining needs: random bytes, HMAC-SHA256, scrypt, X25519, comparison in
// constant time. All are libcrypto's.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/status.h"

namespace tutti {

using ByteView = std::span<const std::byte>;

/// Overwrites, so that the compiler cannot leave it out.
void wipe(std::span<std::byte> secret);

/// A secret or a key derived from one; also the size of a full HMAC-SHA256. What it held is overwritten when it ends.
struct Key : std::array<std::byte, 32> {
  ~Key() { wipe(*this); }
};

/// What names a secret in public: an id's nonce, the hash of a URL.
using KeyId = std::array<std::byte, 16>;

inline ByteView bytes_of(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

/// Fills with bytes nobody can guess. kSystemError when the system has none.
Status random_bytes(std::span<std::byte> out);

/// Before libcrypto is used for the first time, so all functions below call it. Threads that still run while the
/// process ends use libcrypto, so it shall not be torn down by an exit handler of its own. If the program has begun to
/// use it before, that handler is there already, and those that are installed later run before it.
void start_crypto();

/// HMAC-SHA256 (RFC 2104) over the parts, one after the other: parts of variable size need a length in front.
Status hmac_sha256(ByteView key, std::initializer_list<ByteView> parts, Key* mac);

/// Makes a key from a secret that people may have made up, by scrypt (RFC 7914). Each takes tens of milliseconds and
/// 16 MiB, so that whoever has seen a proof made with the key tries guesses slowly, too.
Status stretch(ByteView secret, Key* key);

/// Agreement on a key with somebody over a line that others listen to: X25519 (RFC 7748). Who only listens learns
/// nothing; who stands between the two and answers in both names does. One object for each agreement.
class KeyAgreement {
 public:
  static Status make(KeyAgreement* made);
  /// The other end needs it to agree. It is not secret.
  const Key& public_key() const { return public_key_; }
  /// Makes the key that both ends share, from the other end's public key. kRemoteError: `others` is not a public key.
  Status agree(const Key& others, Key* shared) const;

 private:
  std::shared_ptr<void> own_;  // an EVP_PKEY
  Key public_key_{};
};

/// Compares without telling by its time where the first difference is. Different sizes are different.
bool equal_secret(ByteView a, ByteView b);

/// Lower-case hexadecimal digits, and back; false: not exactly out.size() * 2 such digits.
std::string to_hex(ByteView bytes);
bool from_hex(std::string_view text, std::span<std::byte> out);

}  // namespace tutti

// The few cryptographic primitives that joining needs: random bytes, HMAC-SHA256, comparison in constant time.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "core/status.h"

namespace tutti {

using ByteView = std::span<const std::byte>;

/// A secret or a key derived from one; also the size of a full HMAC-SHA256.
using Key = std::array<std::byte, 32>;

/// What names a secret in public: an id's nonce, the hash of a URL.
using KeyId = std::array<std::byte, 16>;

inline ByteView bytes_of(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

/// Fills with bytes nobody can guess. kSystemError when the system has none.
Status random_bytes(std::span<std::byte> out);

/// Makes libcrypto install its own exit handler now: handlers installed later run before it and may still use it.
void start_crypto();

/// HMAC-SHA256 (RFC 2104) over the parts, one after the other: parts of variable size need a length in front.
Status hmac_sha256(ByteView key, std::initializer_list<ByteView> parts, Key* mac);

/// Compares without telling by its time where the first difference is. Different sizes are different.
bool equal_secret(ByteView a, ByteView b);

/// Overwrites, so that the compiler cannot leave it out.
void wipe(std::span<std::byte> secret);

/// Lower-case hexadecimal digits, and back; false: not exactly out.size() * 2 such digits.
std::string to_hex(ByteView bytes);
bool from_hex(std::string_view text, std::span<std::byte> out);

}  // namespace tutti

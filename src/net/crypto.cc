#include "net/crypto.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <string>
#include <vector>

namespace tutti {

// The first call that has an option decides about libcrypto's exit handler (OPENSSL_init_crypto(3)).
void start_crypto() {
  static const int started = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT | OPENSSL_INIT_LOAD_CRYPTO_STRINGS, nullptr);
  (void)started;  // if it fails, so does what is wanted of libcrypto
}

Status random_bytes(std::span<std::byte> out) {
  start_crypto();
  if (RAND_bytes(reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(out.size())) == 1) return {};
  return fail(Code::kSystemError, "the system gives no random bytes");
}

Status hmac_sha256(ByteView key, std::initializer_list<ByteView> parts, Key* mac) {
  start_crypto();
  std::vector<std::byte> message;
  for (const ByteView part : parts) message.insert(message.end(), part.begin(), part.end());
  unsigned int size = 0;
  const unsigned char* const result = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                                           reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                                           reinterpret_cast<unsigned char*>(mac->data()), &size);
  wipe(message);
  if (result != nullptr && size == mac->size()) return {};
  return fail(Code::kSystemError, "the system's libcrypto offers no HMAC-SHA256");
}

Status stretch(ByteView secret, Key* key) {
  start_crypto();
  constexpr std::string_view kSalt = "tutti secret file";
  constexpr std::uint64_t kCost = 1 << 14, kBlocks = 8, kLanes = 1, kMemory = 64 << 20;
  if (EVP_PBE_scrypt(reinterpret_cast<const char*>(secret.data()), secret.size(),
                     reinterpret_cast<const unsigned char*>(kSalt.data()), kSalt.size(), kCost, kBlocks, kLanes,
                     kMemory, reinterpret_cast<unsigned char*>(key->data()), key->size()) == 1)
    return {};
  return fail(Code::kSystemError, "the system's libcrypto offers no scrypt, or 16 MiB of memory are lacking");
}

Status KeyAgreement::make(KeyAgreement* made) {
  start_crypto();
  EVP_PKEY* const own = EVP_PKEY_Q_keygen(nullptr, nullptr, "X25519");
  made->own_ = std::shared_ptr<void>(own, [](void* key) { EVP_PKEY_free(static_cast<EVP_PKEY*>(key)); });
  std::size_t size = made->public_key_.size();
  if (own != nullptr &&
      EVP_PKEY_get_raw_public_key(own, reinterpret_cast<unsigned char*>(made->public_key_.data()), &size) == 1 &&
      size == made->public_key_.size())
    return {};
  return fail(Code::kSystemError, "the system's libcrypto offers no X25519");
}

Status KeyAgreement::agree(const Key& others, Key* shared) const {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> there(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, reinterpret_cast<const unsigned char*>(others.data()),
                                  others.size()),
      EVP_PKEY_free);
  const std::unique_ptr<EVP_PKEY_CTX, decltype(&EVP_PKEY_CTX_free)> context(
      EVP_PKEY_CTX_new(static_cast<EVP_PKEY*>(own_.get()), nullptr), EVP_PKEY_CTX_free);
  std::size_t size = shared->size();
  // A key that would make the result known beforehand (all zero) is refused by libcrypto.
  if (there && context && EVP_PKEY_derive_init(context.get()) == 1 &&
      EVP_PKEY_derive_set_peer(context.get(), there.get()) == 1 &&
      EVP_PKEY_derive(context.get(), reinterpret_cast<unsigned char*>(shared->data()), &size) == 1 &&
      size == shared->size())
    return {};
  return fail(Code::kRemoteError, "the other end sent a public key that is none");
}

bool equal_secret(ByteView a, ByteView b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void wipe(std::span<std::byte> secret) { OPENSSL_cleanse(secret.data(), secret.size()); }

std::string to_hex(ByteView bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const std::byte b : bytes) {
    text += kDigits[std::to_integer<unsigned>(b) >> 4];
    text += kDigits[std::to_integer<unsigned>(b) & 15];
  }
  return text;
}

bool from_hex(std::string_view text, std::span<std::byte> out) {
  if (text.size() != out.size() * 2) return false;
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  };
  for (std::size_t i = 0; i < out.size(); ++i) {
    const int high = digit(text[2 * i]);
    const int low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out[i] = static_cast<std::byte>(high << 4 | low);
  }
  return true;
}

}  // namespace tutti

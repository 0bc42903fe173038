#include "net/crypto.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <sys/random.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

namespace tutti {

// The first call that has an option decides about libcrypto's exit handler (OPENSSL_init_crypto(3)).
void start_crypto() {
  static const int started = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT | OPENSSL_INIT_LOAD_CRYPTO_STRINGS, nullptr);
  (void)started;  // if it fails, so does what is wanted of libcrypto
}

namespace {

using MacContext = std::unique_ptr<EVP_MAC_CTX, decltype(&EVP_MAC_CTX_free)>;

/// Empty if libcrypto has none, or memory is lacking.
MacContext make_hmac_of_sha256() {
  start_crypto();
  EVP_MAC* const hmac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
  MacContext context(hmac == nullptr ? nullptr : EVP_MAC_CTX_new(hmac), EVP_MAC_CTX_free);
  EVP_MAC_free(hmac);  // the context has its own reference
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
                                   OSSL_PARAM_construct_end()};
  constexpr unsigned char kNoKey[32] = {};  // OpenSSL 3.0.0 copies only a context that has a key
  if (context && EVP_MAC_init(context.get(), kNoKey, sizeof kNoKey, parameters) != 1) context.reset();
  return context;
}

/// One to be copied, and given a key; nullptr if there is none. libcrypto looks algorithms up by their names, which
/// takes longer than the code of a small message. It is never freed.
const EVP_MAC_CTX* hmac_of_sha256() {
  static std::atomic<const EVP_MAC_CTX*> kept{nullptr};  // the exchange's release pairs with the acquire of the load
  const EVP_MAC_CTX* known = kept.load(std::memory_order_acquire);
  if (known != nullptr) return known;
  MacContext made = make_hmac_of_sha256();
  if (kept.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel)) return made.release();
  return known;
}

}  // namespace

Status random_bytes(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = ::getrandom(out.data(), out.size(), 0);
    if (got > 0) out = out.subspan(static_cast<std::size_t>(got));
    if (got < 0 && errno != EINTR)
      return fail(Code::kSystemError, "the system gives no random bytes: {}", errno_text());
  }
  return {};
}

Status hmac_sha256(ByteView key, std::initializer_list<ByteView> parts, Key* mac) {
  const EVP_MAC_CTX* const known = hmac_of_sha256();
  const MacContext context(known == nullptr ? nullptr : EVP_MAC_CTX_dup(known), EVP_MAC_CTX_free);
  const auto bytes = [](ByteView view) { return reinterpret_cast<const unsigned char*>(view.data()); };
  bool good = context && EVP_MAC_init(context.get(), bytes(key), key.size(), nullptr) == 1;
  for (const ByteView part : parts) good = good && EVP_MAC_update(context.get(), bytes(part), part.size()) == 1;
  std::size_t size = 0;
  if (good && EVP_MAC_final(context.get(), reinterpret_cast<unsigned char*>(mac->data()), &size, mac->size()) == 1 &&
      size == mac->size())
    return {};
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

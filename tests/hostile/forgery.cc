#include "hostile/forgery.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <random>
#include <vector>

#include "support/next_function.h"

namespace {

using Bytes = std::vector<unsigned char>;
// A message is its size (4 bytes), its type (2), zeros (2), what it says, and a code, which covers a counter before it.
constexpr std::size_t kCounter = 8;
constexpr std::size_t kHeader = 8;
constexpr std::size_t kCode = 16;

/// What this thread signed last. It is sent next, unless something waits to be sent before it.
struct Signed {
  Bytes key, text;
  std::array<unsigned char, 32> code{};

  bool is(const Bytes& message) const {
    return message.size() >= kHeader + kCode && text.size() + kCode == kCounter + message.size() &&
           std::equal(text.begin() + kCounter, text.end(), message.begin()) &&
           std::equal(code.begin(), code.begin() + kCode, message.end() - kCode);
  }
};
thread_local Signed last;

class Forger {
 public:
  static Forger& get() {
    static Forger* const instance = new Forger;
    return *instance;
  }
  void begin(long k, std::uint64_t rarity, std::uint64_t seed) {
    const std::lock_guard lock(mutex_);
    k_ = k;
    rarity_ = rarity;
    sent_ = forged_ = 0;
    random_.seed(seed);
  }
  /// False: this message goes as it is.
  bool chooses() {
    const std::lock_guard lock(mutex_);
    ++sent_;
    const bool chosen = k_ != 0 && (sent_ == k_ || (sent_ > k_ && rarity_ != 0 && draw(rarity_) == 0));
    if (chosen) ++forged_;
    return chosen;
  }
  long sent() {
    const std::lock_guard lock(mutex_);
    return sent_;
  }
  long forged() {
    const std::lock_guard lock(mutex_);
    return forged_;
  }

  /// Another message with a right code.
  Bytes forged(const Bytes& message) {
    const std::lock_guard lock(mutex_);
    Bytes said(message.begin() + kHeader, message.end() - kCode);
    unsigned type = message[4] + 256u * message[5];
    change(&said, &type);
    const auto size = static_cast<std::uint32_t>(said.size());
    Bytes text(last.text.begin(), last.text.begin() + kCounter);
    for (unsigned i = 0; i < 4; ++i) text.push_back(static_cast<unsigned char>(size >> 8 * i));
    for (const unsigned value : {type, type >> 8, 0u, 0u}) text.push_back(static_cast<unsigned char>(value));
    text.insert(text.end(), said.begin(), said.end());
    std::array<unsigned char, 32> code{};
    HMAC(EVP_sha256(), last.key.data(), static_cast<int>(last.key.size()), text.data(), text.size(), code.data(),
         nullptr);
    Bytes made(text.begin() + kCounter, text.end());
    made.insert(made.end(), code.begin(), code.begin() + kCode);
    return made;
  }

 private:
  std::size_t draw(std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(random_); }

  void change(Bytes* said, unsigned* type) {
    switch (said->empty() ? 4 + draw(2) : draw(6)) {
      case 0:
        (*said)[draw(said->size())] ^= static_cast<unsigned char>(1u << draw(8));
        break;
      case 1:
        set_number(said);
        break;
      case 2:
        set_number(said);
        set_number(said);
        break;
      case 3:
        said->resize(draw(said->size()));
        break;
      case 4:
        for (std::size_t more = 1 + draw(64); more != 0; --more) said->push_back(static_cast<unsigned char>(draw(256)));
        break;
      default:
        *type = static_cast<unsigned>(draw(22));
        break;
    }
  }
  /// Numbers at which programs go wrong.
  void set_number(Bytes* said) {
    constexpr std::array<std::uint64_t, 10> kNumbers{0,          1,           2,        0x7f,       0xffff,
                                                     0x7fffffff, 0x80000000u, 1u << 20, 1ull << 62, UINT64_MAX};
    const std::uint64_t number = kNumbers[draw(kNumbers.size())];
    const std::size_t width = std::size_t{1} << draw(4);
    const std::size_t at = draw(said->size());
    std::memcpy(said->data() + at, &number, std::min(width, said->size() - at));
  }

  std::mutex mutex_;  // guards what follows
  long k_ = 0;
  std::uint64_t rarity_ = 0;
  long sent_ = 0, forged_ = 0;
  std::mt19937_64 random_;
};

ssize_t send_next(int socket, const msghdr* message, int flags) {
  static const auto next = tutti::test::next_function<ssize_t (*)(int, const msghdr*, int)>("sendmsg");
  return next(socket, message, flags);
}

/// All of it, also where the socket takes it in parts; false: it does not take it, at once or within seconds.
bool send_all(int socket, const msghdr& original, Bytes message, int flags) {
  msghdr header = original;
  iovec part{message.data(), message.size()};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  for (int tries = 0; tries < 20; ++tries) {
    const ssize_t sent = send_next(socket, &header, flags);
    if (sent < 0 && (part.iov_len == message.size() || (errno != EAGAIN && errno != EINTR))) return false;
    if (sent > 0) {
      part.iov_base = static_cast<unsigned char*>(part.iov_base) + sent;
      part.iov_len -= static_cast<std::size_t>(sent);
      header.msg_control = nullptr;
      header.msg_controllen = 0;
    }
    if (part.iov_len == 0) return true;
    pollfd ready{socket, POLLOUT, 0};
    ::poll(&ready, 1, 100);
  }
  errno = EPIPE;
  return false;
}

}  // namespace

namespace tutti::test {

void forge(long k, std::uint64_t rarity, std::uint64_t seed) { Forger::get().begin(k, rarity, seed); }
long messages_sent() { return Forger::get().sent(); }
long messages_forged() { return Forger::get().forged(); }

}  // namespace tutti::test

extern "C" {

int EVP_MAC_init(EVP_MAC_CTX* context, const unsigned char* key, std::size_t size, const OSSL_PARAM parameters[]) {
  static const auto next = tutti::test::next_function<decltype(&::EVP_MAC_init)>("EVP_MAC_init");
  last.key.assign(key, key + size);
  last.text.clear();
  return next(context, key, size, parameters);
}

int EVP_MAC_update(EVP_MAC_CTX* context, const unsigned char* text, std::size_t size) {
  static const auto next = tutti::test::next_function<decltype(&::EVP_MAC_update)>("EVP_MAC_update");
  last.text.insert(last.text.end(), text, text + size);
  return next(context, text, size);
}

int EVP_MAC_final(EVP_MAC_CTX* context, unsigned char* code, std::size_t* size, std::size_t room) {
  static const auto next = tutti::test::next_function<decltype(&::EVP_MAC_final)>("EVP_MAC_final");
  const int made = next(context, code, size, room);
  if (made == 1 && *size == last.code.size()) std::copy_n(code, last.code.size(), last.code.begin());
  return made;
}

ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  Bytes bytes;
  for (std::size_t i = 0; i < message->msg_iovlen; ++i) {
    const auto* const part = static_cast<const unsigned char*>(message->msg_iov[i].iov_base);
    bytes.insert(bytes.end(), part, part + message->msg_iov[i].iov_len);
  }
  if (!last.is(bytes) || !Forger::get().chooses()) return send_next(socket, message, flags);
  return send_all(socket, *message, Forger::get().forged(bytes), flags) ? static_cast<ssize_t>(bytes.size()) : -1;
}

ssize_t send(int socket, const void* data, size_t size, int flags) {
  iovec part{const_cast<void*>(data), size};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  return sendmsg(socket, &message, flags);
}

}  // extern "C"

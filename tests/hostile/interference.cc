#include "hostile/interference.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include "support/next_function.h"

namespace {

using tutti::test::Interference;
using Bytes = std::vector<unsigned char>;

bool is_tcp(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  return ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
         (address.ss_family == AF_INET || address.ss_family == AF_INET6);
}

/// Who stands between.
class Middleman {
 public:
  static Middleman& get() {
    static Middleman* const instance = new Middleman;
    return *instance;
  }

  void begin(Interference interference, long k, std::uint64_t seed) {
    const std::lock_guard lock(mutex_);
    interference_ = interference;
    k_ = k;
    pieces_ = 0;
    random_.seed(seed);
    is_done_ = false;
    rest_.clear();
    held_.clear();
    earlier_.clear();
  }
  long pieces() {
    const std::lock_guard lock(mutex_);
    return pieces_;
  }

  bool is_done() {
    const std::lock_guard lock(mutex_);
    return is_done_;
  }

  /// What the process gets of this piece, at most `room` bytes; nothing: it has to ask again.
  Bytes pass(int socket, Bytes piece, std::size_t room) {
    const std::lock_guard lock(mutex_);
    Bytes given = taken(&rest_, socket);
    const Bytes held = taken(&held_, socket);
    if (++pieces_ == k_) {
      const Bytes before = piece;
      piece = interfered(socket, std::move(piece));
      is_done_ = piece != before;
    }
    if (earlier_.empty() || draw(4) == 0) earlier_ = piece;
    given.insert(given.end(), piece.begin(), piece.end());
    given.insert(given.end(), held.begin(), held.end());
    if (given.size() > room) {
      rest_[socket].assign(given.begin() + static_cast<std::ptrdiff_t>(room), given.end());
      given.resize(room);
    }
    return given;
  }

 private:
  static Bytes taken(std::map<int, Bytes>* kept, int socket) {
    const auto found = kept->find(socket);
    if (found == kept->end()) return {};
    Bytes bytes = std::move(found->second);
    kept->erase(found);
    return bytes;
  }
  std::size_t draw(std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(random_); }

  Bytes interfered(int socket, Bytes piece) {
    const auto at = piece.begin() + static_cast<std::ptrdiff_t>(draw(piece.size()));
    switch (interference_) {
      case Interference::kNone:
        break;
      case Interference::kChange:
        *at = static_cast<unsigned char>(*at ^ 1u << draw(8));
        break;
      case Interference::kDrop:
        piece.erase(at, at + 1 + static_cast<std::ptrdiff_t>(draw(static_cast<std::size_t>(piece.end() - at))));
        break;
      case Interference::kRepeat: {
        const Bytes again = piece;
        piece.insert(piece.end(), again.begin(), again.end());
        break;
      }
      case Interference::kReplay:
        piece.insert(piece.begin(), earlier_.begin(), earlier_.end());
        break;
      case Interference::kReorder:
        held_[socket] = std::exchange(piece, {});
        break;
      case Interference::kInsert: {
        Bytes noise(1 + draw(100));
        for (unsigned char& byte : noise) byte = static_cast<unsigned char>(draw(256));
        piece.insert(at, noise.begin(), noise.end());
        break;
      }
      case Interference::kCut:
        piece.erase(at, piece.end());
        ::shutdown(socket, SHUT_RDWR);
        break;
    }
    return piece;
  }

  std::mutex mutex_;  // guards what follows
  Interference interference_ = Interference::kNone;
  long k_ = 0;
  long pieces_ = 0;
  std::mt19937_64 random_;
  bool is_done_ = false;       // the process has got something else than was sent, or than came by then
  std::map<int, Bytes> rest_;  // a socket -> what there was no room for
  std::map<int, Bytes> held_;  // a socket -> what comes after what comes next
  Bytes earlier_;
};

}  // namespace

namespace tutti::test {

void interfere(Interference interference, long k, std::uint64_t seed) { Middleman::get().begin(interference, k, seed); }
long pieces_received() { return Middleman::get().pieces(); }
bool has_interfered() { return Middleman::get().is_done(); }

}  // namespace tutti::test

extern "C" {

ssize_t recvmsg(int socket, msghdr* message, int flags) {
  static const auto next = tutti::test::next_function<ssize_t (*)(int, msghdr*, int)>("recvmsg");
  const ssize_t got = next(socket, message, flags);
  if (got <= 0 || (flags & MSG_PEEK) != 0 || !is_tcp(socket)) return got;
  Bytes piece;
  std::size_t room = 0;
  for (std::size_t i = 0; i < message->msg_iovlen; ++i) {
    const iovec& part = message->msg_iov[i];
    const auto* const from = static_cast<const unsigned char*>(part.iov_base);
    const std::size_t taken = std::min(part.iov_len, static_cast<std::size_t>(got) - piece.size());
    piece.insert(piece.end(), from, from + taken);
    room += part.iov_len;
  }
  piece = Middleman::get().pass(socket, std::move(piece), room);
  if (piece.empty()) return errno = EAGAIN, -1;
  std::size_t given = 0;
  for (std::size_t i = 0; i < message->msg_iovlen && given < piece.size(); ++i) {
    const iovec& part = message->msg_iov[i];
    const std::size_t taken = std::min(part.iov_len, piece.size() - given);
    std::memcpy(part.iov_base, piece.data() + given, taken);
    given += taken;
  }
  return static_cast<ssize_t>(given);
}

ssize_t recv(int socket, void* buffer, size_t size, int flags) {
  if ((flags & MSG_PEEK) != 0) {
    static const auto next = tutti::test::next_function<ssize_t (*)(int, void*, size_t, int)>("recv");
    return next(socket, buffer, size, flags);
  }
  iovec part{buffer, size};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  return recvmsg(socket, &message, flags);
}

}  // extern "C"

// Whether io_uring would carry the tcp transport better than system calls do: messages to and fro between two threads
// over one loopback connection, by each way in turn.
//
//   calls    send and recv that do not block, again and again, as the transport does while it polls
//   yield    the same with a sched_yield after 8 looks that found nothing
//   uring    send and receive submitted to a ring, its completion queue looked at again and again
//   sqpoll   the same with a kernel thread that takes the submissions: no system call, but a third thread
//
// Every round measures all ways once, next to each other; the table shows medians over rounds. The core's state and
// what else runs matter more than the way: compare within a table.
#include <arpa/inet.h>
#include <liburing.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

/// One end of the connection; all functions block the caller until everything has passed.
class Way {
 public:
  virtual ~Way() = default;
  virtual void send(const char* data, std::size_t size) = 0;
  virtual void receive(char* data, std::size_t size) = 0;
};

class Calls final : public Way {
 public:
  Calls(int socket, int looks) : socket_(socket), looks_(looks) {}
  void send(const char* data, std::size_t size) override {
    move(size,
         [&](std::size_t done) { return ::send(socket_, data + done, size - done, MSG_DONTWAIT | MSG_NOSIGNAL); });
  }
  void receive(char* data, std::size_t size) override {
    move(size, [&](std::size_t done) { return ::recv(socket_, data + done, size - done, MSG_DONTWAIT); });
  }

 private:
  template <class Call>
  void move(std::size_t size, const Call& call) {
    int vain = 0;
    for (std::size_t done = 0; done < size;) {
      const ssize_t moved = call(done);
      if (moved > 0) {
        done += static_cast<std::size_t>(moved);
      } else if (moved == 0 || (errno != EAGAIN && errno != EINTR)) {
        die("a connection");
      } else if (looks_ > 0 && ++vain > looks_) {
        sched_yield();
      }
    }
  }
  const int socket_;
  const int looks_;  // before a yield; 0: never
};

class Uring final : public Way {
 public:
  Uring(int socket, unsigned flags) : socket_(socket) {
    if (const int error = io_uring_queue_init(8, &ring_, flags); error < 0) {
      errno = -error;
      die("io_uring_queue_init");
    }
  }
  ~Uring() override { io_uring_queue_exit(&ring_); }
  void send(const char* data, std::size_t size) override {
    for (std::size_t done = 0; done < size;) {
      io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
      io_uring_prep_send(entry, socket_, data + done, size - done, MSG_NOSIGNAL);
      done += complete();
    }
  }
  void receive(char* data, std::size_t size) override {
    for (std::size_t done = 0; done < size;) {
      io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
      io_uring_prep_recv(entry, socket_, data + done, size - done, 0);
      done += complete();
    }
  }

 private:
  /// Does not wait in the kernel: looks at the queue, and lets the kernel post what waits there to be posted.
  std::size_t complete() {
    io_uring_submit(&ring_);
    io_uring_cqe* entry = nullptr;
    while (io_uring_peek_cqe(&ring_, &entry) == -EAGAIN) {
    }
    const int moved = entry->res;
    io_uring_cqe_seen(&ring_, entry);
    if (moved <= 0) die("a connection of the ring");
    return static_cast<std::size_t>(moved);
  }
  const int socket_;
  io_uring ring_{};
};

std::unique_ptr<Way> make_way(const std::string& name, int socket) {
  if (name == "calls") return std::make_unique<Calls>(socket, 0);
  if (name == "yield") return std::make_unique<Calls>(socket, 8);
  return std::make_unique<Uring>(socket, name == "sqpoll" ? IORING_SETUP_SQPOLL : 0u);
}

/// Two connected loopback sockets.
void connect_pair(int* ends) {
  const int door = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(at);
  auto* const address = reinterpret_cast<sockaddr*>(&at);
  if (::bind(door, address, size) != 0 || ::listen(door, 1) != 0 || ::getsockname(door, address, &size) != 0)
    die("a listener");
  ends[0] = ::socket(AF_INET, SOCK_STREAM, 0);
  if (::connect(ends[0], address, size) != 0) die("connect");
  ends[1] = ::accept(door, nullptr, nullptr);
  ::close(door);
  const int on = 1;
  for (int i = 0; i < 2; ++i) {
    if (::setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0) die("TCP_NODELAY");
    static_cast<void>(::setsockopt(ends[i], IPPROTO_TCP, TCP_CONGESTION, "cubic", 5));  // where there is no such, as is
  }
}

/// Microseconds one way.
double measure(const std::string& name, std::size_t bytes, int turns) {
  int ends[2];
  connect_pair(ends);
  std::vector<char> here(bytes), there(bytes);
  std::thread other([&] {
    const auto way = make_way(name, ends[1]);
    for (int i = 0; i < turns + 10; ++i) {
      way->receive(there.data(), bytes);
      way->send(there.data(), bytes);
    }
  });
  std::chrono::steady_clock::time_point begin;
  {
    const auto way = make_way(name, ends[0]);
    for (int i = 0; i < turns + 10; ++i) {
      if (i == 10) begin = std::chrono::steady_clock::now();
      way->send(here.data(), bytes);
      way->receive(here.data(), bytes);
    }
  }
  const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - begin;
  other.join();
  for (const int end : ends) ::close(end);
  return elapsed.count() / (2 * turns);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 9;
  const std::vector<std::string> ways = {"calls", "yield", "uring", "sqpoll"};
  std::printf("%9s", "bytes");
  for (const std::string& way : ways) std::printf(" %9s us", way.c_str());
  std::printf("\n");
  for (const std::size_t bytes : {8u, 4096u, 65536u, 1u << 20}) {
    const int turns = bytes < 65536 ? 3000 : bytes < (1u << 20) ? 1000 : 100;
    std::vector<std::vector<double>> times(ways.size());
    for (int round = 0; round < rounds; ++round)
      for (std::size_t i = 0; i < ways.size(); ++i)  // a third thread on two cores: each turn may take a slice
        times[i].push_back(measure(ways[i], bytes, ways[i] == "sqpoll" ? turns / 300 + 1 : turns));
    std::printf("%9zu", bytes);
    for (const auto& of_way : times) std::printf(" %12.2f", median(of_way));
    std::printf("\n");
    std::fflush(stdout);
  }
  return 0;
}

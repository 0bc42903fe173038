#include "chaos/delays.h"

#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "cases/element.h"
#include "support/next_function.h"

namespace {

std::atomic<bool> is_on{false};
std::atomic<std::uint64_t> seed_of_all{0};
std::atomic<std::uint64_t> messages{0};

void delay() {
  if (!is_on) return;
  const std::uint64_t die = tutti::cases::dice(seed_of_all, messages++, 0);
  if (die % 50 == 0) std::this_thread::sleep_for(std::chrono::microseconds(die / 50 % (die % 3 == 0 ? 20'000 : 500)));
}

}  // namespace

void tutti::chaos::delay_messages(std::uint64_t seed) {
  seed_of_all = seed;
  is_on = true;
}

extern "C" {

ssize_t send(int socket, const void* data, size_t size, int flags) {
  static const auto next = tutti::test::next_function<ssize_t (*)(int, const void*, size_t, int)>("send");
  delay();
  return next(socket, data, size, flags);
}

ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  static const auto next = tutti::test::next_function<ssize_t (*)(int, const msghdr*, int)>("sendmsg");
  delay();
  return next(socket, message, flags);
}

}  // extern "C"

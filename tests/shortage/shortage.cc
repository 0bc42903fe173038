#include "shortage/shortage.h"

#include <execinfo.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>

#include "support/next_function.h"

namespace {

struct Count {
  std::atomic<bool> on{false};
  std::atomic<long> requests{0};
  std::atomic<long> first{0};
  std::atomic<bool> lasting{false};
};
std::array<Count, tutti::test::kScarceKinds> counts;

thread_local bool spares = false;

bool fails(tutti::test::Scarce kind) {
  Count& count = counts[static_cast<std::size_t>(kind)];
  if (!count.on.load() || spares) return false;
  const long request = count.requests.fetch_add(1) + 1;
  return request == count.first.load() || (count.lasting.load() && request > count.first.load());
}

void print_stack() {
  std::array<void*, 60> callers;
  ::backtrace_symbols_fd(callers.data(), ::backtrace(callers.data(), callers.size()), STDERR_FILENO);
}

void* allocate(std::size_t size, std::size_t alignment) {
  if (fails(tutti::test::Scarce::kMemory)) {
    if (std::getenv("TEST_REQUEST") != nullptr) print_stack();
    throw std::bad_alloc();
  }
  void* const memory = alignment == 0 ? std::malloc(size == 0 ? 1 : size)
                                      : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

namespace tutti::test {

void make_scarce(Scarce kind, long k, bool lasting) {
  Count& count = counts[static_cast<std::size_t>(kind)];
  count.requests = 0;
  count.first = k;
  count.lasting = lasting;
  count.on = true;
}

void spare_this_thread(bool is_spared) { spares = is_spared; }

long end_scarcity(Scarce kind) {
  Count& count = counts[static_cast<std::size_t>(kind)];
  count.on = false;
  return count.requests;
}

}  // namespace tutti::test

void* operator new(std::size_t size) { return allocate(size, 0); }
void* operator new[](std::size_t size) { return allocate(size, 0); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
// Without these two a sanitizer brings its own, whose memory the functions below must not free.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return allocate(size, 0);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new[](std::size_t size, const std::nothrow_t& nothrow) noexcept { return operator new(size, nothrow); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

extern "C" {

int socket(int family, int type, int protocol) noexcept {
  static const auto next = tutti::test::next_function<int (*)(int, int, int)>("socket");
  return fails(tutti::test::Scarce::kDescriptors) ? (errno = EMFILE, -1) : next(family, type, protocol);
}

int accept4(int listener, sockaddr* address, socklen_t* size, int flags) {
  static const auto next = tutti::test::next_function<int (*)(int, sockaddr*, socklen_t*, int)>("accept4");
  return fails(tutti::test::Scarce::kDescriptors) ? (errno = EMFILE, -1) : next(listener, address, size, flags);
}

int epoll_create1(int flags) noexcept {
  static const auto next = tutti::test::next_function<int (*)(int)>("epoll_create1");
  return fails(tutti::test::Scarce::kDescriptors) ? (errno = EMFILE, -1) : next(flags);
}

int eventfd(unsigned count, int flags) noexcept {
  static const auto next = tutti::test::next_function<int (*)(unsigned, int)>("eventfd");
  return fails(tutti::test::Scarce::kDescriptors) ? (errno = EMFILE, -1) : next(count, flags);
}

int memfd_create(const char* name, unsigned flags) noexcept {
  static const auto next = tutti::test::next_function<int (*)(const char*, unsigned)>("memfd_create");
  return fails(tutti::test::Scarce::kDescriptors) ? (errno = EMFILE, -1) : next(name, flags);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*main)(void*), void* argument) noexcept {
  static const auto next =
      tutti::test::next_function<int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
  return fails(tutti::test::Scarce::kThreads) ? EAGAIN : next(thread, attributes, main, argument);
}

void* mmap(void* address, size_t size, int protection, int flags, int file, off_t offset) noexcept {
  static const auto next = tutti::test::next_function<void* (*)(void*, size_t, int, int, int, off_t)>("mmap");
  if (!fails(tutti::test::Scarce::kMappings)) return next(address, size, protection, flags, file, offset);
  errno = ENOMEM;
  return MAP_FAILED;
}

int madvise(void* address, size_t size, int advice) noexcept {
  static const auto next = tutti::test::next_function<int (*)(void*, size_t, int)>("madvise");
  return fails(tutti::test::Scarce::kMappings) ? (errno = ENOMEM, -1) : next(address, size, advice);
}

}  // extern "C"

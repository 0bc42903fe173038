#include "stage.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

namespace tutti::peers {
namespace {

long futex(const std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* time) {
  static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
  return syscall(SYS_futex, &word, operation, value, time, nullptr, 0);
}

Stage* map(int memory) {
  void* const mapped = mmap(nullptr, sizeof(Stage), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  return mapped == MAP_FAILED ? nullptr : static_cast<Stage*>(mapped);
}

/// SIGKILL to this process when the pipe's last writer closes it.
bool end_with(const char* life_path) {
  const int life = open(life_path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);  // stays open
  return life >= 0 && fcntl(life, F_SETOWN, getpid()) == 0 && fcntl(life, F_SETSIG, SIGKILL) == 0 &&
         fcntl(life, F_SETFL, O_RDONLY | O_NONBLOCK | O_ASYNC) == 0;
}

}  // namespace

void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t value, int milliseconds) {
  const timespec time{milliseconds / 1000, milliseconds % 1000 * 1000000L};
  futex(word, FUTEX_WAIT, value, &time);
}

void wake_all(const std::atomic<std::uint32_t>& word) { futex(word, FUTEX_WAKE, INT_MAX, nullptr); }

OwnStage::~OwnStage() {
  if (stage_ != nullptr) munmap(stage_, sizeof(Stage));
  for (const int descriptor : {memory_, life_[0], life_[1]}) {
    if (descriptor >= 0) close(descriptor);
  }
}

bool OwnStage::make() {
  memory_ = memfd_create("tutti-perf", MFD_CLOEXEC);
  if (memory_ < 0 || ftruncate(memory_, sizeof(Stage)) != 0 || pipe2(life_, O_CLOEXEC) != 0) return false;
  stage_ = map(memory_);
  return stage_ != nullptr;
}

std::string OwnStage::memory_path() const {
  return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(memory_);
}
std::string OwnStage::life_path() const {
  return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(life_[0]);
}

Stage* open_stage(const char* memory_path, const char* life_path) {
  const int memory = open(memory_path, O_RDWR | O_CLOEXEC);
  if (memory < 0) return nullptr;
  Stage* const stage = map(memory);
  const int error = errno;
  close(memory);
  errno = error;
  if (stage == nullptr || !end_with(life_path)) return nullptr;
  // Whoever went before the line above sends no signal any more.
  return access(life_path, F_OK) == 0 ? stage : nullptr;
}

}  // namespace tutti::peers

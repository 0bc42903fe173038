#include "chaos/striker.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "shortage/shortage.h"
#include "support/connections.h"

namespace tutti::chaos {
namespace {

constexpr int kEnd = std::numeric_limits<int>::max();

/// A limit of this process, until it goes out of scope.
class ScopedLimit {
 public:
  ScopedLimit(__rlimit_resource resource, rlim_t value) : resource_(resource) {
    ::getrlimit(resource, &before_);
    const rlimit lower{std::min(value, before_.rlim_cur), before_.rlim_max};
    ::setrlimit(resource, &lower);
  }
  ~ScopedLimit() { ::setrlimit(resource_, &before_); }
  ScopedLimit(const ScopedLimit&) = delete;
  ScopedLimit& operator=(const ScopedLimit&) = delete;

 private:
  const __rlimit_resource resource_;
  rlimit before_{};
};

/// With this limit a process gets `spare` more descriptors.
rlim_t limit_of_descriptors(int spare) {
  int used = 0;
  DIR* const list = ::opendir("/proc/self/fd");
  if (list == nullptr) return 0;
  while (const dirent* const entry = ::readdir(list)) used = std::max(used, std::atoi(entry->d_name) + 1);
  ::closedir(list);
  return static_cast<rlim_t>(used + spare);
}

}  // namespace

Striker::Striker(const Plan& plan, Board& board, int process)
    : board_(board), process_(process), strikes_(strikes_of(plan, process)), thread_([this] { main(); }) {}

Striker::~Striker() {
  call_ = kEnd;
  call_.notify_all();
  thread_.join();
}

void Striker::at_call(int call) {
  call_ = call;
  call_.notify_all();
}

void Striker::main() {
  for (const Strike& next : strikes_) {
    int call = call_;
    for (; call < next.call; call = call_) call_.wait(call);
    if (call == kEnd) return;
    std::this_thread::sleep_for(next.delay);
    strike(next);
  }
}

void Striker::strike(const Strike& strike) {
  board_.struck |= 1u << static_cast<unsigned>(strike.fault);
  ++board_.strikes[static_cast<int>(strike.fault)];
  switch (strike.fault) {
    case Fault::kKill:
      board_.is_killed[process_] = true;
      ::kill(::getpid(), SIGKILL);
      break;
    case Fault::kStop:
    case Fault::kPause:
      board_.pauses[process_] = static_cast<long>(strike.duration.count());
      ::kill(::getpid(), SIGSTOP);
      break;
    case Fault::kCut:
      (void)test::cut_connections();
      break;
    default:
      lack(strike);
  }
}

void Striker::lack(const Strike& strike) {
  using test::Scarce;
  if (strike.fault == Fault::kDescriptors) {
    const ScopedLimit limit(RLIMIT_NOFILE, limit_of_descriptors(strike.request % 4));
    return std::this_thread::sleep_for(strike.duration);
  }
  if (strike.fault == Fault::kFiles) {
    const ScopedLimit limit(RLIMIT_FSIZE, 0);
    return std::this_thread::sleep_for(strike.duration);
  }
  const Scarce kind = strike.fault == Fault::kMemory    ? Scarce::kMemory
                      : strike.fault == Fault::kThreads ? Scarce::kThreads
                                                        : Scarce::kMappings;
  test::make_scarce(kind, strike.request, strike.request % 2 == 0);
  std::this_thread::sleep_for(strike.duration);
  (void)test::end_scarcity(kind);
}

}  // namespace tutti::chaos

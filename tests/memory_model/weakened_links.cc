// weakened_links [FUNCTION]: runs collectives by the interpreter of the device on threads of the host, with messages in
// slots whose rings wrap, some of which are lent. What FUNCTION of the library acquires or releases is relaxed; `any`
// and `sync` mean the two barriers of a block, whose threads still wait for each other then. weakened_links_test.py
// says what the thread sanitizer has to find.
#include <atomic>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "collectives/choice/catalogue.h"
#include "memory_model/weakened_word.h"
// The word's functions are changed from here on.
#include "device/call_end.h"
#include "executor/device/device_interpreter.h"
#include "support/device/device_trial.h"

namespace tutti::test {
namespace {

/// Where the threads of a block wait for each other. Without order no thread sees what others did before.
class Meeting {
 public:
  Meeting(std::uint32_t threads, bool orders)
      : threads_(threads),
        arrives_(orders ? std::memory_order_acq_rel : std::memory_order_relaxed),
        looks_(orders ? std::memory_order_acquire : std::memory_order_relaxed) {}

  bool vote(bool mine) {
    const std::uint32_t before = arrived_.fetch_add(mine ? kVote + 1 : 1, arrives_);
    const std::uint32_t meeting = (before & (kVote - 1)) / threads_;
    std::uint32_t now = before;
    while ((now & (kVote - 1)) < (meeting + 1) * threads_) {
      std::this_thread::yield();
      now = arrived_.load(looks_);
    }
    return now >= kVote;  // one vote ends the kernel, so there is no need to forget it
  }

 private:
  static constexpr std::uint32_t kVote = 1u << 24;
  const std::uint32_t threads_;
  const std::memory_order arrives_;
  const std::memory_order looks_;
  std::atomic<std::uint32_t> arrived_{0};
};

struct Team {
  explicit Team(std::uint32_t threads) : votes(threads, weakened != "any"), barrier(threads, weakened != "sync") {}
  Meeting votes;
  Meeting barrier;
  BlockMemory memory;
};

/// The Block of one thread.
struct MeetingBlock {
  Team* team;
  std::uint32_t block;
  std::uint32_t number;
  std::uint32_t count;

  std::uint32_t index() const { return block; }
  std::uint32_t thread() const { return number; }
  std::uint32_t threads() const { return count; }
  void sync() { team->barrier.vote(false); }
  bool any(bool mine) { return team->votes.vote(mine); }
};

constexpr std::size_t kElements = 6000;

/// What the caller may do with a buffer when the kernel has ended. It writes what was there, so that no result
/// changes.
void use_again(const std::byte* buffer) {
  auto* const bytes = reinterpret_cast<volatile unsigned char*>(const_cast<std::byte*>(buffer));
  for (std::size_t i = 0; i < kElements * sizeof(std::uint32_t); ++i) bytes[i] = bytes[i];
}

/// Two ranks of one block run `one`. Returns what is wrong, or nothing.
std::string run_case(DeviceCase one) {
  DeviceGeometry geometry;
  geometry.ranks = 2;
  geometry.cell_bytes = 256;
  geometry.slot_bytes = 4096;
  DeviceWorld world(geometry);
  return DeviceTrial(&world, one).run();
}

}  // namespace

void run_on_host(const DeviceCall& call, const HostRun& how) {
  const DeviceKernel<portable::Plain<std::uint32_t>, portable::Add> kernel;
  std::vector<std::unique_ptr<Team>> teams;
  std::vector<std::thread> running;
  for (std::uint32_t b = 0; b < call.grid(); ++b) {
    teams.push_back(std::make_unique<Team>(how.threads));
    for (std::uint32_t t = 0; t < how.threads; ++t) {
      running.emplace_back([&call, &kernel, &how, team = teams.back().get(), b, t] {
        MeetingBlock block{team, b, t, how.threads};
        DeviceInterpreter<MeetingBlock, decltype(kernel)>(call, block, team->memory, kernel).run();
      });
    }
  }
  // The host uses the buffers as soon as it sees the end, whether the threads are gone or not.
  const CallEnd end(EndWords{call.watch.report->ended, call.grid(), call.number}, nullptr);
  while (!end.has_ended()) std::this_thread::yield();
  if (call.links.rank == 0 && !call.lends) use_again(call.binding.output);
  for (std::thread& thread : running) thread.join();
  if (call.lends && call.links.rank == 0) {  // the root
    use_again(call.binding.input);
    use_again(call.binding.output);
  }
}

}  // namespace tutti::test

int main(int argc, char** argv) {
  using namespace tutti;
  using namespace tutti::test;
  if (argc > 1) weakened = argv[1];
  for (const bool lends : {false, true}) {
    for (const Collective collective : {Collective::kAllReduce, Collective::kBroadcast}) {
      DeviceCase one{find_algorithm(collective, "all_pairs"), 1, 0, kElements, 300};
      one.lends = lends;
      const std::string wrong = run_case(one);
      if (wrong.empty()) continue;
      std::fprintf(stderr, "%s\n", wrong.c_str());
      return 1;
    }
  }
  std::puts("all results are right");
  return 0;
}

// Which copy should fill a slot in shared memory that the peer has just read? Two threads, one a core, exchange slots:
// each copies a piece of its own buffer into its slot, publishes it, and adds the peer's slot into its buffer. The
// figure is the time of a whole exchange, since a copy that is fast for the writer can be slow for the reader.
//
// The cores' distance changes on virtual machines, so every block is bracketed by a ping-pong of one cache line and
// counted under the distance that both ends agree on. Ways of copying take turns within one process.
//   slot_copy_bench [rounds]
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "kernels/copy.h"
#include "kernels/kernels.h"

namespace tutti {
namespace {

constexpr std::size_t kMost = 512 * 1024;
constexpr std::size_t kSlots = 4;
constexpr std::size_t kBuffer = 2 * 1024 * 1024;
constexpr int kPings = 400;

using Copy = void (*)(void* destination, const void* source, std::size_t bytes);
struct Way {
  const char* name;
  Copy copy;
};

/// A reduction whose destination is the slot, as a ring's middle step: of the piece with itself.
void reduce_into(void* to, const void* from, std::size_t bytes, bool stream) {
  const void* sources[] = {from, from};
  reduce_kernel(DataType::kFloat32, RedOp::kMax)({sources, 2, to, nullptr, bytes / 4, 1, stream});
}

/// Copies as links do, which find out by themselves which way is faster.
void copy_as_links(void* to, const void* from, std::size_t bytes) {
  thread_local SlotStores stores;
  copy_into_slot(to, nullptr, from, Bytes{bytes}, false, stores);
}
void reduce_as_links(void* to, const void* from, std::size_t bytes) {
  thread_local SlotStores stores;
  const void* sources[] = {from, from};
  reduce_into_slot(reduce_kernel(DataType::kFloat32, RedOp::kMax), Bytes{4}, {sources, 2, to, nullptr, bytes / 4},
                   stores);
}

const Way kWays[] = {
    {"memcpy", [](void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }},
    {"vector", [](void* to, const void* from, std::size_t bytes) { copy_by_vector(to, from, bytes); }},
    {"stream", [](void* to, const void* from, std::size_t bytes) { copy_by_stream(to, from, bytes); }},
    {"string", [](void* to, const void* from, std::size_t bytes) { copy_by_string(to, from, bytes); }},
    {"copy_bytes", [](void* to, const void* from, std::size_t bytes) { copy_bytes(to, from, Bytes{bytes}, false); }},
    {"reduce", [](void* to, const void* from, std::size_t bytes) { reduce_into(to, from, bytes, false); }},
    {"reduce stream", [](void* to, const void* from, std::size_t bytes) { reduce_into(to, from, bytes, true); }},
    {"copy_into_slot", copy_as_links},
    {"reduce_into_slot", reduce_as_links},
};
constexpr std::size_t kSizes[] = {512, 1024, 2048, 4096, 16384, 65536, 262144, kMost};

struct alignas(64) Turn {
  std::atomic<std::uint64_t> value{0};
};

/// What both threads share. A turn is written by its owner alone, read by the other.
struct Arena {
  Turn ping[2];
  Turn filled[2];
  Turn emptied[2];
  alignas(4096) unsigned char slots[2][kSlots][kMost];
};

double now() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void await(const Turn& turn, std::uint64_t value) {
  // Pairs with the release store of the turn's owner.
  while (turn.value.load(std::memory_order_acquire) < value) {
  }
}

/// One thread of the exchange.
class Side {
 public:
  Side(Arena* arena, int me) : arena_(arena), me_(me), buffer_(kBuffer, 1) {}

  /// Nanoseconds one way, of the median ping.
  double ping_pong() {
    std::vector<double> times;
    for (int i = 0; i < kPings; ++i) {
      const double start = now();
      ++pings_;
      if (me_ == 0) {
        arena_->ping[0].value.store(pings_, std::memory_order_release);  // pairs with the peer's await
        await(arena_->ping[1], pings_);
      } else {
        await(arena_->ping[0], pings_);
        arena_->ping[1].value.store(pings_, std::memory_order_release);  // pairs with the peer's await
      }
      times.push_back(now() - start);
    }
    std::nth_element(times.begin(), times.begin() + kPings / 2, times.end());
    return (times[kPings / 2] - 25) / 2;  // less one reading of the clock
  }

  /// Nanoseconds an exchange of `bytes` bytes.
  double exchange(const Way& way, std::size_t bytes, int times) {
    const double start = now();
    for (int i = 0; i < times; ++i) {
      ++exchanges_;
      unsigned char* mine = arena_->slots[me_][exchanges_ % kSlots];
      const unsigned char* theirs = arena_->slots[1 - me_][exchanges_ % kSlots];
      unsigned char* piece = buffer_.data() + (exchanges_ * bytes) % (kBuffer - kMost);
      if (exchanges_ > kSlots) await(arena_->emptied[1 - me_], exchanges_ - kSlots);
      way.copy(mine, piece, bytes);
      arena_->filled[me_].value.store(exchanges_, std::memory_order_release);  // pairs with the peer's await
      await(arena_->filled[1 - me_], exchanges_);
      const void* sources[] = {piece, theirs};
      add_({sources, 2, piece, nullptr, bytes, 1, false});
      arena_->emptied[me_].value.store(exchanges_, std::memory_order_release);  // pairs with the peer's await
    }
    return (now() - start) / times;
  }

 private:
  Arena* arena_;
  int me_;
  std::vector<unsigned char> buffer_;
  std::uint64_t pings_ = 0;
  std::uint64_t exchanges_ = 0;
  ReduceKernel add_ = reduce_kernel(DataType::kUint8, RedOp::kBitXor);
};

enum Distance { kNear, kFar, kUnclear };
Distance distance_of(double before, double after) {
  const auto near = [](double ns) { return ns < 110; };
  if (near(before) != near(after)) return kUnclear;
  return near(before) ? kNear : kFar;
}

using Samples = std::map<std::pair<std::size_t, std::size_t>, std::vector<double>>;  // by size and way

void measure(Arena* arena, int me, int rounds, Samples* by_distance) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(me, &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
  Side side(arena, me);
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t bytes : kSizes) {
      const int times = static_cast<int>(std::max<std::size_t>(8, std::min<std::size_t>(64, 1048576 / bytes)));
      for (std::size_t i = 0; i < std::size(kWays); ++i) {
        const std::size_t way = (i + round) % std::size(kWays);
        const double before = side.ping_pong();
        side.exchange(kWays[way], bytes, 4);
        const double time = side.exchange(kWays[way], bytes, times);
        const double after = side.ping_pong();
        if (me == 0) by_distance[distance_of(before, after)][{bytes, way}].push_back(time);
      }
    }
  }
}

void report(const char* title, Samples samples) {
  std::printf("%s (ns an exchange, median; samples in brackets)\n%8s", title, "bytes");
  for (const Way& way : kWays) std::printf(" %16s", way.name);
  std::printf("\n");
  for (std::size_t bytes : kSizes) {
    std::printf("%8zu", bytes);
    for (std::size_t way = 0; way < std::size(kWays); ++way) {
      std::vector<double>& times = samples[{bytes, way}];
      if (times.empty()) times.push_back(0);
      std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
      std::printf(" %10.0f [%3zu]", times[times.size() / 2], times.size());
    }
    std::printf("\n");
  }
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  using namespace tutti;
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 20;
  void* memory = mmap(nullptr, sizeof(Arena), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  auto* arena = new (memory) Arena;
  Samples by_distance[3];
  std::thread peer(measure, arena, 1, rounds, by_distance);
  measure(arena, 0, rounds, by_distance);
  peer.join();
  report("near", by_distance[kNear]);
  report("far", by_distance[kFar]);
  munmap(memory, sizeof(Arena));
  return 0;
}

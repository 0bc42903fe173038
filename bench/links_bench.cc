// Micro-benchmark of links: one-way latency and throughput between two threads over shm and inproc, beside the physical
// limit, a bare cache line going to and fro.
//
// Plain code, not Google Benchmark: on shared machines the cores move between states that differ by a factor of 5
// within seconds, so every round measures all rows once, next to each other, and the table shows medians over rounds,
// of the times and of the ratios to the bare line of the same round.
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "transport/inproc.h"
#include "transport/shm/shm.h"

namespace {

using namespace tutti;

constexpr Bytes kLargest{256 * 1024};

void pin(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  static_cast<void>(pthread_setaffinity_np(pthread_self(), sizeof(cores), &cores));  // as it comes where not permitted
}

/// Both sides of a measurement; the first one is timed. A second thread serves all measurements of the program.
class Pair {
 public:
  Pair() : second_([this] { serve(); }) { pin(0); }
  ~Pair() {
    post(nullptr);
    second_.join();
  }
  /// Seconds that `first` took, with `second` at work on the other core.
  double time(const std::function<void()>& first, const std::function<void()>& second) {
    post(&second);
    while (taken_.load(std::memory_order_acquire) != posted_.load(std::memory_order_relaxed)) {
    }
    const auto begin = std::chrono::steady_clock::now();
    first();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    while (done_.load(std::memory_order_acquire) != posted_.load(std::memory_order_relaxed)) {
    }
    return elapsed.count();
  }

 private:
  void post(const std::function<void()>* work) {
    work_ = work;
    posted_.fetch_add(1, std::memory_order_release);  // pairs with serve()
  }
  void serve() {
    pin(1);
    for (std::uint64_t count = 1;; ++count) {
      while (posted_.load(std::memory_order_acquire) < count) {
      }
      if (work_ == nullptr) return;
      taken_.store(count, std::memory_order_release);  // pairs with time()
      (*work_)();
      done_.store(count, std::memory_order_release);  // pairs with time()
    }
  }
  const std::function<void()>* work_ = nullptr;
  std::atomic<std::uint64_t> posted_{0};
  std::atomic<std::uint64_t> taken_{0};
  std::atomic<std::uint64_t> done_{0};
  std::thread second_;
};

template <class E>
void put(E& end, Route route, Bytes bytes, const std::byte* data, std::uint64_t i) {
  std::byte* memory = nullptr;
  while ((memory = end.send_claim(route, bytes)) == nullptr) {
  }
  std::memcpy(memory, data, bytes.value);
  end.send_commit(route, bytes, i);
}

template <class E>
void take(E& end, Route route, Bytes bytes, std::byte* data, std::uint64_t i) {
  Peek peek;
  while ((peek = end.recv_peek(route, bytes, i)).state == PeekState::kAgain) {
  }
  if (peek.state != PeekState::kReady) std::abort();
  std::memcpy(data, peek.data, bytes.value);
  end.recv_release(route, bytes);
}

/// Two endpoints, their buffers, and the measurements on them. All results in microseconds a message.
template <class E>
struct Ends {
  E& first;
  E& second;
  std::vector<std::byte> near = std::vector<std::byte>(kLargest.value);
  std::vector<std::byte> far = std::vector<std::byte>(kLargest.value);

  double latency(Pair& pair, Bytes bytes, bool multicast, int count) {
    const auto route = [&](int peer) { return Route{Rank(peer), multicast, 0}; };
    const double seconds = pair.time(
        [&] {
          for (int i = 0; i < count; ++i) {
            put(first, route(1), bytes, near.data(), static_cast<std::uint64_t>(i));
            take(first, route(1), bytes, near.data(), static_cast<std::uint64_t>(i));
          }
        },
        [&] {
          for (int i = 0; i < count; ++i) {
            take(second, route(0), bytes, far.data(), static_cast<std::uint64_t>(i));
            put(second, route(0), bytes, far.data(), static_cast<std::uint64_t>(i));
          }
        });
    return seconds * 1e6 / count / 2;
  }
  double stream(Pair& pair, Bytes bytes, int count) {
    const double seconds = pair.time(
        [&] {
          for (int i = 0; i < count; ++i)
            take(first, Route{Rank(1), false, 0}, bytes, near.data(), static_cast<std::uint64_t>(i));
        },
        [&] {
          for (int i = 0; i < count; ++i)
            put(second, Route{Rank(0), false, 0}, bytes, far.data(), static_cast<std::uint64_t>(i));
        });
    return seconds * 1e6 / count;
  }
};

/// The limit: each side answers in a line of its own.
double bare_line(Pair& pair, int count) {
  struct alignas(kCacheLine) Line {
    std::atomic<int> value{0};
  };
  static Line lines[4];
  lines[0].value = lines[2].value = 0;
  const double seconds = pair.time(
      [&] {
        for (int i = 1; i <= count; ++i) {
          lines[0].value.store(i, std::memory_order_release);
          while (lines[2].value.load(std::memory_order_acquire) != i) {
          }
        }
      },
      [&] {
        for (int i = 1; i <= count; ++i) {
          while (lines[0].value.load(std::memory_order_acquire) != i) {
          }
          lines[2].value.store(i, std::memory_order_release);
        }
      });
  return seconds * 1e6 / count / 2;
}

struct Row {
  std::string name;
  Bytes bytes;
  std::function<double()> measure;
  std::vector<double> times = {};
  std::vector<double> ratios = {};
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<Row> make_rows(Pair& pair, Ends<ShmEndpoint>& shm, Ends<InprocEndpoint>& inproc) {
  std::vector<Row> rows;
  rows.push_back({"bare line, one way", Bytes(4), [&] { return bare_line(pair, 400); }});
  for (const Bytes bytes : {Bytes(0), Bytes(8), Bytes(48), Bytes(64), Bytes(1024), Bytes(4096)})
    rows.push_back({"shm, one way", bytes, [&, bytes] { return shm.latency(pair, bytes, false, 200); }});
  rows.push_back({"shm multicast, one way", Bytes(8), [&] { return shm.latency(pair, Bytes(8), true, 200); }});
  rows.push_back({"inproc, one way", Bytes(8), [&] { return inproc.latency(pair, Bytes(8), false, 10); }});
  rows.push_back({"shm, stream", Bytes(8), [&] { return shm.stream(pair, Bytes(8), 2000); }});
  for (Bytes bytes{4096}; bytes <= kLargest; bytes = bytes * 2) {
    const int count = static_cast<int>((1u << 20) / bytes.value);
    rows.push_back({"shm, stream", bytes, [&, bytes, count] { return shm.stream(pair, bytes, count); }});
  }
  rows.push_back({"inproc, stream", kLargest, [&] { return inproc.stream(pair, kLargest, 4); }});
  return rows;
}

void print(const std::vector<Row>& rows) {
  std::printf("%-24s %9s %12s %10s %10s\n", "link", "bytes", "us/message", "GB/s", "x line");
  for (const Row& row : rows) {
    const double time = median(row.times);
    std::printf("%-24s %9zu %12.4f %10.2f %10.2f\n", row.name.c_str(), row.bytes.value, time,
                static_cast<double>(row.bytes.value) / time * 1e-3, median(row.ratios));
  }
}

int run(int rounds) {
  const ShmGeometry geometry{2, 1, kLargest, 4};
  std::vector<std::shared_ptr<Segment>> segments(2);
  std::unique_ptr<ShmEndpoint> ends[2];
  for (auto& segment : segments)
    if (!Segment::create(geometry.segment_bytes(), &segment).ok()) return 1;
  for (int rank = 0; rank < 2; ++rank)
    if (!ShmEndpoint::open(geometry, Rank(rank), segments, &ends[rank]).ok()) return 1;
  const auto fabric = std::make_shared<InprocFabric>(2, 1, kLargest);
  InprocEndpoint inproc0(fabric, Rank(0));
  InprocEndpoint inproc1(fabric, Rank(1));
  Ends<ShmEndpoint> shm{*ends[0], *ends[1]};
  Ends<InprocEndpoint> inproc{inproc0, inproc1};

  Pair pair;
  std::vector<Row> rows = make_rows(pair, shm, inproc);
  for (int round = -2; round < rounds; ++round) {  // two rounds to warm up
    for (Row& row : rows) {
      const double line = bare_line(pair, 200);
      const double time = row.measure();
      if (round < 0) continue;
      row.times.push_back(time);
      row.ratios.push_back(time / line);
    }
  }
  print(rows);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (std::thread::hardware_concurrency() < 2) {
    std::puts("links_bench needs two cores");
    return 0;
  }
  return run(argc > 1 ? std::max(1, std::atoi(argv[1])) : 300);
}

// A rank whose memory has gone wild: it writes at random into everything that it shares with its peers.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace tutti::test {

/// From its construction to its end a thread writes numbers at random into the shared memory that this process has
/// mapped: in bursts, the first `delay_us` microseconds after there is any.
class Scribbler {
 public:
  Scribbler(std::uint64_t seed, unsigned delay_us) : thread_([=, this] { run(seed, delay_us); }) {}
  ~Scribbler() {
    stop_.store(true);
    thread_.join();
  }
  Scribbler(const Scribbler&) = delete;
  Scribbler& operator=(const Scribbler&) = delete;

  /// How many numbers it has written.
  long written() const { return written_.load(); }

 private:
  void run(std::uint64_t seed, unsigned delay_us);

  std::atomic<bool> stop_{false};
  std::atomic<long> written_{0};
  std::thread thread_;
};

}  // namespace tutti::test

#include "executor/device_probe.h"

#include <chrono>
#include <thread>
#include <vector>

namespace tutti {

namespace {

/// Longer than a kernel's start takes on a busy device.
constexpr double kPatience = 20;
/// Between two looks whether the kernel has ended.
constexpr std::chrono::microseconds kNap{100};
/// Elements a pair: a message for a cell, and one for a slot.
constexpr std::size_t kCounts[] = {32, 4096};

std::uint64_t word(int from, int to, std::size_t i) {
  return mix64((static_cast<std::uint64_t>(from) << 48) + (static_cast<std::uint64_t>(to) << 32) + i + 1);
}

/// Device memory for a scope.
class Borrowed {
 public:
  Borrowed(DeviceDriver& driver, int device) : driver_(driver), device_(device) {}
  ~Borrowed() {
    if (memory_ != nullptr) (void)driver_.release(device_, memory_);
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  Status allocate(Bytes bytes) { return driver_.allocate(device_, bytes, &memory_); }
  std::byte* data() const { return static_cast<std::byte*>(memory_); }

 private:
  DeviceDriver& driver_;
  int device_;
  void* memory_ = nullptr;
};

constexpr const char* kWhat = "the check of the links between devices";

/// Waits for a kernel, and for the peers that it waits for.
Status wait_for(DeviceExecutor& executor, const DeviceEvent& ended, Watch& watch) {
  for (;;) {
    Status state = executor.poll(ended, kWhat);
    if (state.ok()) return state;
    if (state.code() == Code::kInProgress) state = watch.check(executor.missing(), 0);
    if (!state.ok()) return executor.abandon(), state;
    std::this_thread::sleep_for(kNap);
  }
}

/// What came back is in `words`.
Status exchange(DeviceExecutor& executor, const Schedule& schedule, std::byte* memory, std::size_t count,
                std::vector<std::uint64_t>* words, Watch& watch) {
  DeviceDriver& driver = executor.driver();
  const Bytes bytes{words->size() * sizeof(std::uint64_t)};
  Launch launch;
  launch.schedule = &schedule;
  launch.carry(DataType::kUint64);
  launch.input = memory;
  launch.output = memory + bytes.value;
  launch.count = launch.tile = Elems{count};
  launch.fingerprint = mix64(count);
  TUTTI_TRY(driver.copy(executor.device(), memory, words->data(), bytes, executor.stream()));
  std::shared_ptr<DeviceEvent> ended;
  TUTTI_TRY(executor.launch_on(launch, executor.stream(), kPatience, &ended));
  TUTTI_TRY(wait_for(executor, *ended, watch));
  TUTTI_TRY(driver.copy(executor.device(), words->data(), memory + bytes.value, bytes, executor.stream()));
  return driver.synchronize(executor.stream());
}

}  // namespace

Status probe_links(DeviceExecutor& executor, const Algorithm& all_to_all, Rank rank, int ranks, Watch& watch) {
  const Schedule schedule = build_schedule(all_to_all, Shape{ranks, rank.value, 0, 1, nullptr});
  Status arrived;  // what is wrong here is told after the last message: others wait for this rank's
  for (const std::size_t count : kCounts) {
    const std::size_t all = count * static_cast<std::size_t>(ranks);
    Borrowed memory(executor.driver(), executor.device());
    TUTTI_TRY(memory.allocate(Bytes{2 * all * sizeof(std::uint64_t)}));
    std::vector<std::uint64_t> words(all);
    for (std::size_t i = 0; i < all; ++i) words[i] = word(rank.value, static_cast<int>(i / count), i % count);
    TUTTI_TRY(exchange(executor, schedule, memory.data(), count, &words, watch));
    for (std::size_t i = 0; i < all && arrived.ok(); ++i) {
      const int from = static_cast<int>(i / count);
      if (words[i] != word(from, rank.value, i % count))
        arrived = fail(Code::kSystemError, "what rank {} wrote for rank {} on device {} did not arrive", from,
                       rank.value, executor.device());
    }
  }
  return arrived;
}

}  // namespace tutti

#include "executor/device/device_probe.h"

#include <chrono>
#include <string>
#include <vector>

#include "core/wait_until.h"

namespace tutti {

namespace {

/// In seconds; longer than a kernel's start takes on a busy device.
constexpr double kProbeTimeout = 20;
/// The sleep between two looks whether the kernel has ended.
constexpr std::chrono::microseconds kProbeNap{100};
/// How many elements each pair of ranks exchanges: so many that the message goes into a cell, and into a slot.
constexpr std::size_t kCounts[] = {32, 4096};

std::uint64_t word(int from, int to, std::size_t i) {
  return mix64((static_cast<std::uint64_t>(from) << 48) + (static_cast<std::uint64_t>(to) << 32) + i + 1);
}

/// Device memory for a scope. It comes from the pool: a rank that is done with one exchange must not wait for kernels,
/// as a peer's kernel of the next exchange may wait for this rank by then.
class Borrowed {
 public:
  Borrowed(DeviceDriver& driver, int device) : driver_(driver), device_(device) {}
  ~Borrowed() {
    if (memory_ != nullptr) (void)driver_.release_pooled(device_, memory_);
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  Status allocate(Bytes bytes) { return driver_.allocate_pooled(device_, bytes, &memory_); }
  std::byte* data() const { return static_cast<std::byte*>(memory_); }

 private:
  DeviceDriver& driver_;
  int device_;
  void* memory_ = nullptr;
};

/// Waits for a kernel, and so for the peers that it waits for.
Status wait_for(DeviceExecutor& executor, const CallEnd& ended, const char* links, WaitMonitor& monitor) {
  Status end;
  const auto has_ended = [&] {
    end = executor.poll(ended, std::string("the check of ") + links);
    return end.code() != Code::kInProgress;
  };
  const auto is_worth_it = [&](bool) { return monitor.check(executor.awaited(), 0); };
  if (Status in_vain = wait_until(has_ended, is_worth_it, WaitPace::naps(kProbeNap)); !in_vain.ok()) end = in_vain;
  if (!end.ok()) executor.abandon();
  return end;
}

/// The words of one call. Each block of the input is for one rank; if there is only one, it is for all.
struct Words {
  std::size_t count = 0;  // of a block
  std::vector<std::uint64_t> input;
  std::vector<std::uint64_t> output;

  Words(const Schedule& schedule, std::size_t each)
      : count(each), input(each * schedule.extent.input_blocks), output(each * schedule.extent.output_blocks) {
    const int rank = schedule.shape.rank;
    for (std::size_t i = 0; i < input.size(); ++i) input[i] = word(rank, target(i / count), i % count);
  }
  int target(std::size_t block) const { return input.size() == count ? kAll : static_cast<int>(block); }
  /// A rank whose message did not arrive as it was sent; -1 if there is none.
  int wrong(int rank) const {
    const int to = input.size() == count ? kAll : rank;
    for (std::size_t i = 0; i < output.size(); ++i)
      if (const int from = static_cast<int>(i / count); output[i] != word(from, to, i % count)) return from;
    return -1;
  }

 private:
  static constexpr int kAll = kMaxDeviceRanks;
};

Bytes bytes_of(const std::vector<std::uint64_t>& words) { return Bytes{words.size() * sizeof(std::uint64_t)}; }

/// Runs the call; afterwards what arrived is in `words->output`.
Status exchange(DeviceExecutor& executor, const Schedule& schedule, const char* links, std::byte* memory, Words* words,
                WaitMonitor& monitor) {
  DeviceDriver& driver = executor.driver();
  std::byte* const output = memory + bytes_of(words->input).value;
  Launch launch;
  launch.schedule = &schedule;
  launch.carry(DataType::kUint64);
  launch.input = memory;
  launch.output = output;
  launch.count = launch.tile = Elems{words->count};
  launch.fingerprint = mix64(words->count);
  launch.kernel_timeout = kProbeTimeout;
  TUTTI_TRY(driver.copy(executor.device(), memory, words->input.data(), bytes_of(words->input), executor.stream()));
  // What an earlier join has left in this memory may be the very words that are expected.
  TUTTI_TRY(driver.copy(executor.device(), output, words->output.data(), bytes_of(words->output), executor.stream()));
  std::shared_ptr<CallEnd> ended;
  TUTTI_TRY(executor.begin_launch(launch, executor.stream()));
  (void)wait_until([&] { return executor.missing_launch() == kNoRank; }, Deadline::in(kProbeTimeout),
                   WaitPace::naps(kProbeNap));
  TUTTI_TRY(executor.finish_launch(&ended));
  TUTTI_TRY(wait_for(executor, *ended, links, monitor));
  TUTTI_TRY(driver.copy(executor.device(), words->output.data(), output, bytes_of(words->output), executor.stream()));
  return driver.synchronize(executor.stream());
}

}  // namespace

Status probe_links(DeviceExecutor& executor, const ProbedLinks& links, Rank rank, int ranks, WaitMonitor& monitor) {
  const Schedule schedule = build_schedule(*links.algorithm, Shape{ranks, rank.value, 0, 1, nullptr});
  Status arrived;  // returned only after the last message, because others wait for this rank's messages
  executor.trust_end_words(false);
  for (const std::size_t count : kCounts) {
    Words words(schedule, count);
    Borrowed memory(executor.driver(), executor.device());
    TUTTI_TRY(memory.allocate(Bytes{bytes_of(words.input).value + bytes_of(words.output).value}));
    TUTTI_TRY(exchange(executor, schedule, links.name, memory.data(), &words, monitor));
    if (const int from = words.wrong(rank.value); from >= 0 && arrived.ok())
      arrived = fail(Code::kSystemError, "what rank {} wrote for rank {} on device {} by {} did not arrive",
                     executor.number(Rank{from}).value, executor.number(rank).value, executor.device(), links.name);
    if (arrived.ok() && !executor.has_said_end())
      arrived = fail(Code::kSystemError, "the host did not see the end of rank {}'s kernel on device {}",
                     executor.number(rank).value, executor.device());
  }
  executor.trust_end_words(arrived.ok());
  return arrived;
}

}  // namespace tutti

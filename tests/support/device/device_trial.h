// One collective of all ranks, run by the interpreter on the host and compared with results computed here.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "collectives/steps_together.h"
#include "schedule/schedule.h"
#include "support/device/device_world.h"

namespace tutti::test {

struct DeviceCase {
  const Algorithm* algorithm = nullptr;
  int lanes = 1;
  int root = 0;
  std::size_t count = 0;
  std::size_t tile = 0;  ///< elements; 0: as large as messages allow
  bool in_place = false;
  std::uint32_t threads = 2;
  int slow = -1;             ///< a rank that pauses before each step
  bool lowest_wins = false;  ///< the reduction's result is its first operand
  bool lends = false;        ///< large messages stay in the ranks' buffers
  int times = 1;             ///< how often the program's steps follow one another; of one lane, not in place
  void (*run)(const DeviceCall&, const HostRun&) = run_on_host;
};

/// Values that no two elements share.
inline std::uint32_t value_of(int rank, std::size_t i) {
  return static_cast<std::uint32_t>(mix64((static_cast<std::uint64_t>(rank) << 40) + i + 1));
}

class DeviceTrial {
 public:
  DeviceTrial(DeviceWorld* world, const DeviceCase& one) : world_(*world), case_(one) {
    for (int rank = 0; rank < ranks(); ++rank) {
      Shape shape{ranks(), rank, one.root, one.lanes, nullptr};
      schedules_.push_back(build_schedule(*one.algorithm, shape));
      mark_what_runs_together(&schedules_.back());
      repeat(&schedules_.back());
      lay_out(rank);
    }
  }

  /// Runs it and says what is wrong; empty: nothing.
  std::string run() {
    std::vector<std::thread> ranks_running;
    for (int rank = 0; rank < ranks(); ++rank) ranks_running.emplace_back([this, rank] { run(rank); });
    for (std::thread& thread : ranks_running) thread.join();
    std::string wrong;
    for (int rank = 0; rank < ranks() && wrong.empty(); ++rank) wrong = check(rank);
    return wrong.empty() ? wrong : describe() + ": " + wrong;
  }

  /// The part of one rank.
  void run(int rank) {
    const Launch what = launch(rank);
    DevicePlace place = world_.place(rank);
    std::vector<std::byte> scratch(device_scratch(what, world_.geometry()).value + 64);
    place.scratch = scratch.data();
    DeviceCall call{};
    bind_device_call(what, place, &call);
    if (what.schedule->steps.size() > kInlineSteps) call.table = what.schedule->steps.data();
    HostRun how{case_.threads};
    if (rank == case_.slow) how.pause = std::chrono::microseconds{300};
    if (case_.lowest_wins) how.instead = take_first;
    case_.run(call, how);
  }

  Launch launch(int rank) const {
    Launch launch;
    const Schedule& schedule = schedules_[index(rank)];
    launch.schedule = &schedule;
    launch.carry(DataType::kUint32);
    launch.input = reinterpret_cast<const std::byte*>(input_[index(rank)]);
    launch.output = reinterpret_cast<std::byte*>(output_[index(rank)]);
    launch.count = Elems{case_.count};
    const std::size_t most = world_.geometry().slot_bytes / sizeof(std::uint32_t) / schedule.extent.message_chunks;
    const std::size_t limit = most / 16 * 16 * schedule.extent.parts;
    launch.tile = Elems{case_.tile == 0 ? limit : std::min(case_.tile, limit)};
    launch.fingerprint = mix64(case_.count + 77);
    launch.lends = case_.lends;
    return launch;
  }

  std::string describe() const {
    return std::string(name_of(case_.algorithm->collective)) + " " + case_.algorithm->name + ", " +
           std::to_string(ranks()) + " ranks, " + std::to_string(case_.lanes) + " lanes, root " +
           std::to_string(case_.root) + ", " + std::to_string(case_.count) + " elements, tiles of " +
           std::to_string(case_.tile) + (case_.in_place ? ", in place" : "") + (case_.lends ? ", lent" : "") +
           (case_.times > 1 ? ", " + std::to_string(case_.times) + " times" : "");
  }

 private:
  static constexpr std::uint32_t kUnwritten = 0xE7E7E7E7u;
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  int ranks() const { return world_.geometry().ranks; }
  Collective collective() const { return case_.algorithm->collective; }

  /// Each time the program takes the same input to the same output.
  void repeat(Schedule* schedule) const {
    const std::vector<Step> once = schedule->steps;
    for (int more = 1; more < case_.times; ++more)
      schedule->steps.insert(schedule->steps.end(), once.begin(), once.end());
    schedule->steps_per_lane *= static_cast<std::uint32_t>(case_.times);
  }

  void lay_out(int rank) {
    const Extent& extent = schedules_[index(rank)].extent;
    const std::size_t in = extent.input_blocks * case_.count;
    const std::size_t out = extent.output_blocks * case_.count;
    const std::size_t own = index(rank) * case_.count;
    memory_.emplace_back(in + out + 1, kUnwritten);
    std::uint32_t* const begin = memory_.back().data();
    input_.push_back(begin);
    output_.push_back(begin + in);
    if (case_.in_place) {
      input_.back() = begin + (out > in ? own : 0);
      output_.back() = begin + (in > out ? own : 0);
    }
    for (std::size_t i = 0; i < in; ++i) input_.back()[i] = value_of(rank, i);
  }

  static void take_first(unsigned thread, unsigned threads, device::ReduceArgs args, Bytes element) {
    const Bytes bytes{args.count * element.value};
    device::copy(thread, threads, args.sources[0], args.destinations, args.destination_count, bytes);
  }

  std::uint32_t sum(std::size_t i) const {
    if (case_.lowest_wins) return value_of(0, i);
    std::uint32_t total = 0;
    for (int rank = 0; rank < ranks(); ++rank) total += value_of(rank, i);
    return total;
  }
  std::uint32_t expected(int rank, std::size_t block, std::size_t i) const {
    switch (collective()) {
      case Collective::kAllReduce:
      case Collective::kReduce:
        return sum(i);
      case Collective::kReduceScatter:
        return sum(index(rank) * case_.count + i);
      case Collective::kBroadcast:
        return value_of(case_.root, i);
      case Collective::kAllGather:
      case Collective::kGather:
        return value_of(static_cast<int>(block), i);
      case Collective::kScatter:
        return value_of(case_.root, index(rank) * case_.count + i);
      default:
        return value_of(static_cast<int>(block), index(rank) * case_.count + i);
    }
  }

  std::string check(int rank) const {
    for (const std::uint64_t failure : world_.report(rank).failures)
      if (failure != 0) return "rank " + std::to_string(rank) + " failed with " + std::to_string(failure);
    const bool rooted_end = collective() == Collective::kReduce || collective() == Collective::kGather;
    if (collective() == Collective::kBarrier || (rooted_end && rank != case_.root)) return {};
    const std::size_t blocks = schedules_[index(rank)].extent.output_blocks;
    for (std::size_t b = 0; b < blocks; ++b)
      for (std::size_t i = 0; i < case_.count; ++i)
        if (output_[index(rank)][b * case_.count + i] != expected(rank, b, i))
          return "rank " + std::to_string(rank) + ", block " + std::to_string(b) + ", element " + std::to_string(i);
    return {};
  }

  DeviceWorld& world_;
  DeviceCase case_;
  std::vector<Schedule> schedules_;
  std::vector<std::vector<std::uint32_t>> memory_;
  std::vector<std::uint32_t*> input_;
  std::vector<std::uint32_t*> output_;
};

}  // namespace tutti::test

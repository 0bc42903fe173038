// Schedules of any number of equal steps, to measure what a step costs in the device's interpreter.
#pragma once

#include <cstdint>

#include "executor/executor.h"
#include "schedule/schedule.h"
#include "schedule/step_builder.h"

namespace tutti::bench {

/// Each step copies the input to the output; no messages.
inline Schedule copy_chain(std::uint32_t steps) {
  Schedule schedule;
  schedule.steps_per_lane = steps;
  schedule.steps.assign(steps, copy_step(0));
  return schedule;
}

/// Two ranks: `messages` from each to the other, each sent on when the one before has arrived and been stored. After an
/// odd number the output is the other's input, after an even one the own. One step more than messages.
inline Schedule relay_chain(std::uint32_t messages, std::int32_t rank) {
  Schedule schedule;
  schedule.shape = Shape{2, rank, 0, 1, nullptr};
  schedule.steps_per_lane = messages + 1;
  const std::int32_t peer = 1 - rank;
  schedule.steps.push_back(StepBuilder(0, 0).take(BufferId::kInput, 0).send(peer).step());
  for (std::uint32_t i = 1; i < messages; ++i)
    schedule.steps.push_back(StepBuilder(0, 0).recv(peer).store(BufferId::kOutput, 0).send(peer).step());
  schedule.steps.push_back(StepBuilder(0, 0).recv(peer).store(BufferId::kOutput, 0).step());
  return schedule;
}

/// A launch of such a schedule on `count` 32-bit values.
inline Launch launch_of(const Schedule& schedule, const std::byte* input, std::byte* output, std::size_t count) {
  Launch launch;
  launch.schedule = &schedule;
  launch.carry(DataType::kUint32);
  launch.input = input;
  launch.output = output;
  launch.count = Elems{count};
  launch.tile = Elems{round_up(count, 16)};
  launch.fingerprint = 0x7471;
  return launch;
}

}  // namespace tutti::bench

#include "executor/step_work.h"

#include <algorithm>
#include <bit>

#include "executor/chunk_runs.h"

namespace tutti {

namespace {
constexpr std::size_t kPiece = 4096;  // elements: 16 KiB of float32 and half of it or less as it travels
}

void StepWork::bind(const Launch& launch) {
  launch_ = &launch;
  const Schedule& schedule = *launch.schedule;
  const Elems align{kPartAlign.value >> std::countr_zero(launch.wire_element.value)};  // sizes are powers of two
  binding_.extent = schedule.extent;
  binding_.tiling = Tiling(schedule.extent, launch.count, launch.tile, align);
  binding_.is_ragged = launch.ragged != nullptr;
  if (binding_.is_ragged) binding_.ragged = *launch.ragged;
  binding_.input = launch.input;
  binding_.output = launch.output;
  binding_.element = launch.element;
  binding_.wire_element = launch.wire_element;
  binding_.scratch_chunk = Binding::scratch_chunk_of(binding_.tiling, launch.wire_element);
  const std::size_t scratch = binding_.scratch_chunk.value * schedule.extent.scratch_chunks;
  if (scratch_.size() < scratch) scratch_.resize(scratch);
  binding_.scratch = scratch_.data();
}

void StepWork::run(LaneState& lane, const Step& step, Elems count, const std::byte* arrived, std::byte* slot) {
  binding_.is_one_range(step) ? run_bound_range(lane, step, count, arrived, slot) : run_span(lane, step, arrived, slot);
}

void StepWork::run_bound_range(LaneState& lane, const Step& step, Elems count, const std::byte* arrived,
                               std::byte* slot) {
  const Launch& launch = *launch_;
  if (launch.wire != launch.type) [[unlikely]]
    return run_narrow(lane, step, count, arrived, slot);
  StepRange range{.count = count, .arrived = arrived, .slot = slot};
  if (arrived == nullptr || step.has(kReduce)) range.own = binding_.source(step, lane.tile);
  if (step.has(kStore)) range.stored = binding_.destination(step, lane.tile);
  run_range(launch, lane, step, range, stores(step));
}

/// Works range by range on chunks that lie apart in the buffers; in the message they follow one another.
void StepWork::run_span(LaneState& lane, const Step& step, const std::byte* arrived, std::byte* slot) {
  std::size_t at = 0;
  for (std::uint32_t j = 0; j < step.span.count;) {
    const ChunkRun run = run_from(binding_, step, j, step.span.count, lane.tile);
    const Step first = single_step(step, j, launch_->schedule->extent);
    j += run.chunks;
    if (run.count.value == 0) continue;
    run_bound_range(lane, first, run.count, arrived == nullptr ? nullptr : arrived + at,
                    slot == nullptr ? nullptr : slot + at);
    at += run.count.value * launch_->wire_element.value;
  }
}

// Below are steps on buffers of float32 whose messages are of a narrower type: conversion, reduction and conversion
// back piece by piece, so that what is converted stays in the first-level cache and no buffer is passed over twice.
//
// The result is that of the same collective on buffers of the wire type, widened: every rank's own data is rounded to
// the wire type like its peers', reductions add in float32 and round once, and what is stored is what travels. So all
// ranks get the same bits.

void StepWork::run_narrow(LaneState& lane, const Step& step, Elems count, const std::byte* arrived, std::byte* slot) {
  for (std::size_t at = 0; at < count.value; at += kPiece)
    run_piece(lane, step, at, std::min(kPiece, count.value - at), arrived, slot);
}

/// Elements [at, at + count) of the step's chunk.
void StepWork::run_piece(LaneState& lane, const Step& step, std::size_t at, std::size_t count, const std::byte* arrived,
                         std::byte* slot) {
  const Launch& launch = *launch_;
  alignas(kCacheLine) std::byte own[kPiece * 2];
  alignas(kCacheLine) std::byte result[kPiece * 2];
  const std::size_t shift = at * launch.wire_element.value;
  const Bytes bytes{count * launch.wire_element.value};
  const bool reduces = step.has(kReduce);
  const std::byte* value = arrived != nullptr ? arrived + shift : nullptr;
  const std::byte* mine = nullptr;
  if (reduces || value == nullptr) {
    const std::byte* const source = binding_.source(step, lane.tile);
    mine = source + shift;
    if (step.src_buffer != BufferId::kScratch) {
      narrow_floats(launch.wire, own, reinterpret_cast<const float*>(source) + at, count);
      mine = own;
    }
  }
  if (reduces) {
    const void* pair[2];
    ReduceArgs args = operands_of(launch, lane, step, mine, value, pair);
    // Messages begin at their own start, this piece somewhere within them.
    const void** const sources = const_cast<const void**>(args.sources);
    const int set = is_set(step.recv_from) ? lane.members : 0;
    for (int k = 0; k < set; ++k)
      if (k != lane.place) sources[k] = static_cast<const std::byte*>(sources[k]) + shift;
    args.destination = result;
    args.count = count;
    kernel(launch)(args);
    for (int k = 0; k < set; ++k)
      if (k != lane.place) sources[k] = static_cast<const std::byte*>(sources[k]) - shift;
    value = result;
  } else if (value == nullptr) {
    value = mine;
  }
  if (slot != nullptr) copy_into_slot(slot + shift, nullptr, value, bytes, false, stores(step));
  if (!step.has(kStore)) return;
  std::byte* const stored = binding_.destination(step, lane.tile);
  if (step.dst_buffer == BufferId::kScratch) return copy_bytes(stored + shift, value, bytes, false);
  widen_floats(launch.wire, reinterpret_cast<float*>(stored) + at, value, count, launch.stream_stores);
}

}  // namespace tutti

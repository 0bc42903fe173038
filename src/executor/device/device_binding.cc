#include "executor/device/device_binding.h"

#include <algorithm>

#include "executor/device/block_memory.h"

namespace tutti {

namespace {

/// A chunk of this size is worth a thread block of its own: what a cell holds. On an H200 512 bytes were as good or
/// better, and 8 KiB no better (docs/design/device.md, S1).
constexpr std::size_t kWorthwhile = 2048;

std::uint32_t most_stripes(const Launch& launch, const DeviceGeometry& geometry) {
  const auto lanes = static_cast<std::uint32_t>(launch.schedule->shape.lanes);
  return std::max(geometry.blocks / lanes, 1u);
}

Elems alignment_of(const Launch& launch) { return Elems{kPartAlign.value / launch.element.value}; }

Tiling tiling_of(const Launch& launch, const DeviceGeometry& geometry) {
  return Tiling(launch.schedule->extent, launch.count, device_tile(launch, geometry), alignment_of(launch));
}

// All ranks must take equally many stripes. If the blocks differ in size, they see different numbers of tiles, so each
// takes all stripes.
std::uint32_t stripes_of(const Launch& launch, const DeviceGeometry& geometry) {
  const std::uint32_t most = most_stripes(launch, geometry);
  if (launch.ragged != nullptr) return most;
  return static_cast<std::uint32_t>(std::min<std::size_t>(tiling_of(launch, geometry).tiles(), most));
}

void keep_blocks(const BlockTable& table, std::size_t* counts, std::size_t* offsets, std::uint32_t* size) {
  std::copy_n(table.counts, table.size, counts);
  std::copy_n(table.offsets, table.size, offsets);
  *size = static_cast<std::uint32_t>(table.size);
}

std::size_t blocks_of(const Launch& launch, const DeviceGeometry& geometry) {
  return static_cast<std::size_t>(launch.schedule->shape.lanes) * stripes_of(launch, geometry);
}
/// The bytes of the schedule's scratch chunks.
std::size_t scratch_of_blocks(const Launch& launch, const DeviceGeometry& geometry) {
  const Bytes chunk = Binding::scratch_chunk_of(tiling_of(launch, geometry), launch.element);
  const std::size_t chunks = launch.schedule->extent.scratch_chunks * blocks_of(launch, geometry);
  return round_up(chunk.value * chunks, alignof(StepShape));
}
/// The bytes for shapes that kernels find, if a program has more of them than fit into shared memory.
std::size_t shapes_of_blocks(const Launch& launch, const DeviceGeometry& geometry) {
  if (launch.schedule->steps_per_lane <= kShapes) return 0;
  return launch.schedule->steps_per_lane * blocks_of(launch, geometry) * sizeof(StepShape);
}

void find_shapes(const Schedule& schedule, DeviceCall* call) {
  Binding binding = call->binding;
  if (binding.is_ragged) binding.ragged = call->ragged();
  const std::size_t tiles = schedule.steps.empty() ? 0 : binding.tiles();
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    call->shapes[i].step = schedule.steps[i];
    call->shapes[i].find(binding, tiles, call->ranks, call->links.rank);
  }
}

}  // namespace

Elems device_tile(const Launch& launch, const DeviceGeometry& geometry) {
  if (launch.ragged != nullptr) return launch.tile;
  const std::size_t unit = alignment_of(launch).value * launch.schedule->extent.parts;
  const std::size_t least = kWorthwhile / launch.element.value * launch.schedule->extent.parts;
  // Blocks have equally many tiles, or nearly, so that few are waited for at the end.
  const std::size_t stripes = most_stripes(launch, geometry);
  const std::size_t rounds = std::max<std::size_t>(div_up(launch.count.value, stripes * launch.tile.value), 1);
  const std::size_t share = round_up(div_up(launch.count.value, stripes * rounds), unit);
  return std::min(launch.tile, Elems{std::max(share, least)});
}

Bytes device_scratch(const Launch& launch, const DeviceGeometry& geometry) {
  return Bytes{scratch_of_blocks(launch, geometry) + shapes_of_blocks(launch, geometry)};
}

void bind_device_call(const Launch& launch, const DevicePlace& place, DeviceCall* call) {
  const Schedule& schedule = *launch.schedule;
  const DeviceGeometry& geometry = place.links.geometry;
  call->links = place.links;
  call->watch = place.watch;
  call->tile = device_tile(launch, geometry);
  Binding& binding = call->binding;
  binding.extent = schedule.extent;
  binding.tiling = tiling_of(launch, geometry);
  binding.is_ragged = launch.ragged != nullptr;
  binding.input = launch.input;
  binding.output = launch.output;
  binding.scratch = place.scratch;
  binding.scratch_chunk = Binding::scratch_chunk_of(binding.tiling, launch.element);
  binding.element = binding.wire_element = launch.element;
  if (binding.is_ragged) {
    keep_blocks(launch.ragged->input(), call->blocks[0], call->blocks[1], &call->input_blocks);
    keep_blocks(launch.ragged->output(), call->blocks[2], call->blocks[3], &call->output_blocks);
  }
  call->scratch_stride = binding.scratch_chunk.value * schedule.extent.scratch_chunks;
  call->fingerprint = launch.fingerprint;
  call->number = place.number;
  const portable::TypeAndOp alike = portable::first_alike(launch.type, launch.op);
  call->type = alike.type;
  call->op = alike.op;
  call->ranks = schedule.shape.ranks;
  call->lanes = static_cast<std::uint32_t>(schedule.shape.lanes);
  call->stripes = stripes_of(launch, geometry);
  call->steps_per_lane = schedule.steps_per_lane;
  call->lends = launch.lends;
  std::copy_n(place.lent, 2, call->lent);
  call->divisor = launch.divisor;
  call->tree_order = launch.tree_order;
  call->alone_reduces = launch.alone_reduces;
  call->table = nullptr;
  call->found_shapes = nullptr;
  if (schedule.steps.size() <= kInlineSteps) return find_shapes(schedule, call);
  call->found_shapes = reinterpret_cast<StepShape*>(place.scratch + scratch_of_blocks(launch, geometry));
}

}  // namespace tutti

// The work of steps on buffers of float32 whose messages are of a narrower type. Conversion, reduction and conversion
// back go piece by piece, so that what is converted stays in the first-level cache and no buffer is passed over twice.
//
// The result is what the same collective on buffers of the wire type would give, widened: every rank's own data is
// rounded to the wire type like its peers', reductions add in float32 and round once, and what is stored is what is
// sent. So all ranks get the same bits.
#include <algorithm>

#include "executor/step_work.h"
#include "schedule/peer_list.h"

namespace tutti {

namespace {
constexpr std::size_t kPiece = 4096;  // in elements: 16 KiB of float32, and half of that or less in a message
}

void StepWork::run_narrow(LaneState& lane, const Step& step, Elems count, const std::byte* arrived, std::byte* slot) {
  for (std::size_t at = 0; at < count.value; at += kPiece)
    run_piece(lane, step, at, std::min(kPiece, count.value - at), arrived, slot);
}

/// Works on the elements [at, at + count) of the step's chunk.
void StepWork::run_piece(LaneState& lane, const Step& step, std::size_t at, std::size_t count, const std::byte* arrived,
                         std::byte* slot) {
  const Launch& launch = *launch_;
  alignas(kCacheLine) std::byte own[kPiece * 2];
  alignas(kCacheLine) std::byte result[kPiece * 2];
  const std::size_t shift = at * launch.wire_element.value;
  const Bytes bytes{count * launch.wire_element.value};
  const bool reduces = step.has(kReduce) && !is_alone(step);
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
    ReduceArgs args = operands(lane, step, mine, value, pair);
    // The sources point to the beginnings of messages, but this piece is somewhere within them.
    const void** const sources = const_cast<const void**>(args.sources);
    const int set = is_set(step.recv_from) ? peers_of(launch.schedule->shape, step.recv_from).count : 0;
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
  if (slot != nullptr) copy_bytes(slot + shift, value, bytes, false);
  if (!step.has(kStore)) return;
  std::byte* const stored = binding_.destination(step, lane.tile);
  if (step.dst_buffer == BufferId::kScratch) return copy_bytes(stored + shift, value, bytes, false);
  widen_floats(launch.wire, reinterpret_cast<float*>(stored) + at, value, count, launch.stream_stores);
}

}  // namespace tutti

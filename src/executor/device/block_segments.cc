#include "executor/device/block_segments.h"

namespace tutti {

void BlockSegments::begin(const Launch& whole, const StagedBuffers& buffers) {
  buffers_ = &buffers;
  const std::size_t tile = tile_of(whole), block = whole.count.value;
  const std::size_t blocks = std::max(buffers.input_blocks, buffers.output_blocks);
  cut(whole, std::max<std::size_t>(div_up(block, tile), 1), std::min(tile, block) * whole.element.value * blocks);
}

Status BlockSegments::load(std::size_t segment, std::byte* in) {
  if (whole().input == nullptr) return {};
  const std::size_t element = whole().element.value, width = elements_of(segment) * element;
  const std::byte* const from = whole().input + part_of(segment).first * element;
  return copy_in(RowsCopy{in, width, from, whole().count.value * element, width, buffers_->input_blocks});
}

void BlockSegments::run(std::size_t segment, std::byte* in, std::byte* out, Executor& host) {
  Launch& launch = put_on(in, out);
  launch.count = Elems{elements_of(segment)};
  if (buffers_->prepare) buffers_->prepare(in, launch.count.value * buffers_->input_blocks);
  host.start(launch);
}

Status BlockSegments::store(std::size_t segment, const std::byte* out) {
  if (whole().output == nullptr) return {};
  const std::size_t element = whole().element.value, width = elements_of(segment) * element;
  std::byte* const to = whole().output + part_of(segment).first * element;
  return copy_out(RowsCopy{to, whole().count.value * element, out, width, width, buffers_->output_blocks});
}

}  // namespace tutti

#include "executor/device/ragged_segments.h"

namespace tutti {

namespace {
/// Computes the offsets of blocks that lie one right after another.
template <class Size>
void lay_out(std::size_t blocks, const Size& size, std::vector<std::size_t>* offsets) {
  offsets->resize(blocks);
  std::size_t end = 0;
  for (std::size_t b = 0; b < blocks; ++b) {
    (*offsets)[b] = end;
    end += size(b);
  }
}
}  // namespace

void RaggedSegments::begin(const Launch& whole) {
  const BlockTable& input = whole.ragged->input();
  const BlockTable& output = whole.ragged->output();
  const std::size_t block = std::max(input.largest(), output.largest());
  const std::size_t blocks = std::max(input.size, output.size);
  cut(whole, whole.ragged->tiles(), std::min(tile_of(whole), block) * whole.element.value * blocks);
}

Status RaggedSegments::load(std::size_t segment, std::byte* in) {
  if (whole().input == nullptr) return {};
  const BlockTable& blocks = whole().ragged->input();
  const std::size_t element = whole().element.value;
  const Part part = part_of(segment);
  for (std::size_t b = 0; b < blocks.size; ++b) {
    const std::size_t bytes = part.of(blocks.counts[b]) * element;
    const std::byte* const from = whole().input + (blocks.offsets[b] + part.first) * element;
    TUTTI_TRY(copy_in(RowsCopy{in, bytes, from, bytes, bytes, 1}));
    in += bytes;
  }
  return {};
}

void RaggedSegments::run(std::size_t segment, std::byte* in, std::byte* out, Executor& host) {
  const Part part = part_of(segment);
  BlockTable input = whole().ragged->input(), output = whole().ragged->output();
  lay_out(
      input.size, [&](std::size_t b) { return part.of(input.counts[b]); }, &in_offsets_);
  lay_out(
      output.size, [&](std::size_t b) { return part.of(output.counts[b]); }, &out_offsets_);
  input.offsets = in_offsets_.data();
  output.offsets = out_offsets_.data();
  tiling_ = whole().ragged->window(input, output, segment * tiles(), tiles());
  Launch& launch = put_on(in, out);
  launch.ragged = &tiling_;
  host.start(launch);
}

Status RaggedSegments::store(std::size_t segment, const std::byte* out) {
  if (whole().output == nullptr) return {};
  const BlockTable& blocks = whole().ragged->output();
  const std::size_t element = whole().element.value;
  const Part part = part_of(segment);
  for (std::size_t b = 0; b < blocks.size; ++b) {
    const std::size_t bytes = part.of(blocks.counts[b]) * element;
    std::byte* const to = whole().output + (blocks.offsets[b] + part.first) * element;
    TUTTI_TRY(copy_out(RowsCopy{to, bytes, out, bytes, bytes, 1}));
    out += bytes;
  }
  return {};
}

}  // namespace tutti

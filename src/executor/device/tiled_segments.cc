#include "executor/device/tiled_segments.h"

namespace tutti {

void TiledSegments::cut(const Launch& whole, std::size_t tiles, std::size_t tile_bytes) {
  whole_ = whole;
  foreign_input_ = copies_.is_foreign(whole.input);
  foreign_output_ = copies_.is_foreign(whole.output);
  tile_bytes_ = tile_bytes;
  tiles_ = std::max<std::size_t>(tile_bytes == 0 ? tiles : kBytes / tile_bytes, 1);
  count_ = div_up(tiles, tiles_);
}

auto TiledSegments::part_of(std::size_t segment) const -> Part {
  const std::size_t count = tiles_ * tile_of(whole_);
  return Part{segment * count, count};
}

Launch& TiledSegments::put_on(const std::byte* in, std::byte* out) {
  launch_ = whole_;
  if (whole_.input != nullptr) launch_.input = in;
  if (whole_.output != nullptr) launch_.output = out;
  return launch_;
}

}  // namespace tutti

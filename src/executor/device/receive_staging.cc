#include "executor/device/receive_staging.h"

#include <algorithm>

namespace tutti {

void ReceiveStaging::clear() {
  largest_ = Bytes{0};
  receives_.clear();
}

void ReceiveStaging::add(std::size_t transfer, const Transfer& receive, bool foreign) {
  receives_.resize(transfer + 1);
  receives_[transfer] = Receive{receive.data, foreign};
  largest_ = std::max(largest_, receive.bytes());
}

void ReceiveStaging::begin(std::byte* memory, Bytes room, Bytes piece) {
  if (receives_.empty()) return;
  piece_ = std::min(piece.value, largest_.value);
  chunk_bytes_ = std::min(room.value, std::max(CopyStream::kChunk, round_up(piece_, kCacheLine)));
  count_ = room.value / chunk_bytes_;
  at_ = 0;
  while (chunks_.size() < count_) chunks_.emplace_back();
  for (std::size_t i = 0; i < count_; ++i) {
    chunks_[i].memory = memory + i * chunk_bytes_;
    chunks_[i].parts.clear();
  }
}

Status ReceiveStaging::write(std::size_t transfer, Bytes at, Bytes size, std::byte** data) {
  *data = nullptr;
  const auto goes_on = [&] {
    if (chunk().parts.empty()) return false;
    const Part& last = chunk().parts.back();
    return last.transfer == transfer && last.at + last.bytes == at.value;
  };
  std::size_t place = goes_on() ? used() : round_up(used(), kCacheLine);
  if (place + size.value > chunk_bytes_) {
    TUTTI_TRY(store());
    place = 0;
  }
  if (chunk().parts.empty()) {
    bool free = false;
    TUTTI_TRY(chunk().stored.query(&free));
    if (!free) return {};
  }
  if (goes_on()) {
    chunk().parts.back().bytes += size.value;
  } else {
    chunk().parts.push_back(Part{transfer, at.value, place, size.value});
  }
  *data = chunk().memory + place;
  return {};
}

Status ReceiveStaging::store_full() {
  return !receives_.empty() && round_up(used(), kCacheLine) + piece_ > chunk_bytes_ ? store() : Status{};
}

Status ReceiveStaging::store() {
  if (receives_.empty() || chunk().parts.empty()) return {};
  for (const Part& part : chunk().parts) {
    const Receive& receive = receives_[part.transfer];
    const RowsCopy copy{receive.data + part.at, part.bytes, chunk().memory + part.place, part.bytes, part.bytes, 1};
    TUTTI_TRY(copies_.copy(copy, receive.foreign));
  }
  TUTTI_TRY(copies_.mark(&chunk().stored));
  chunk().parts.clear();
  at_ = (at_ + 1) % count_;
  return {};
}

}  // namespace tutti

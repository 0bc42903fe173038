#include "executor/device/transfer_segments.h"

#include <algorithm>
#include <utility>

namespace tutti {

void TransferSegments::begin(std::span<const Transfer> transfers, Bytes piece) {
  staged_.assign(transfers.begin(), transfers.end());
  piece_ = piece;
  waits_ = false;
  fault_ = {};
  sends_.clear();
  receives_.clear();
  for (std::size_t i = 0; i < staged_.size(); ++i) {
    Transfer& transfer = staged_[i];
    if (transfer.count.value == 0) continue;
    const DeviceDriver::Place place = copies_.driver.place_of(transfer.data);
    if (!place.on_device) continue;
    transfer.staging = this;
    const bool foreign = place.device >= 0 && place.device != copies_.device;
    if (transfer.kind == Transfer::Kind::kSend) {
      sends_.add(i, transfer, foreign);
    } else {
      receives_.add(i, transfer, foreign);
    }
  }
}

std::size_t TransferSegments::segment_bytes() const {
  return round_up(std::min(piece_, std::max(sends_.largest(), receives_.largest())).value, kCacheLine);
}

void TransferSegments::run(std::size_t, std::byte* in, std::byte* out, Executor& host) {
  const Bytes room{std::max(kBytes, segment_bytes())};
  sends_.begin(in, room, piece_);
  receives_.begin(out, room, piece_);
  host.start(std::span(staged_));
}

Status TransferSegments::advance(Executor& host, Progress* outcome) {
  waits_ = false;
  *outcome = host.advance();
  TUTTI_TRY(fault_);
  if (*outcome == Progress::kFailed) return {};
  TUTTI_TRY(sends_.load_ahead());
  return receives_.store_full();
}

void TransferSegments::note(Status status, bool found) {
  waits_ = waits_ || !found;
  if (fault_.ok()) fault_ = std::move(status);
}

const std::byte* TransferSegments::read(std::size_t send, Bytes size) {
  const std::byte* data = nullptr;
  Status status = sends_.read(send, size, &data);
  note(std::move(status), data != nullptr);
  return data;
}

std::byte* TransferSegments::write(std::size_t receive, Bytes at, Bytes size) {
  std::byte* data = nullptr;
  Status status = receives_.write(receive, at, size, &data);
  note(std::move(status), data != nullptr);
  return data;
}

void TransferSegments::move(std::size_t send, std::size_t receive) {
  const Bytes bytes = staged_[send].bytes();
  const std::byte* const from = sends_.take_out(send);
  note(copies_.copy(receives_.target(receive), from, bytes), true);
}

}  // namespace tutti

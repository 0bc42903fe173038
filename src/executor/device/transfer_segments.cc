#include "executor/device/transfer_segments.h"

namespace tutti {

void TransferSegments::begin(std::span<Transfer> transfers) {
  staged_.assign(transfers.begin(), transfers.end());
  transfers_ = transfers;
  memories_.resize(transfers.size());
}

Status TransferSegments::load(std::size_t, std::byte*) {
  for (std::size_t i = 0; i < staged_.size(); ++i) {
    Transfer& transfer = staged_[i];
    if (transfer.count.value == 0 || !copies_.driver.place_of(transfer.data).on_device) continue;
    memories_[i].resize(transfer.bytes().value);
    transfer.data = memories_[i].data();
    if (transfer.kind == Transfer::Kind::kSend)
      TUTTI_TRY(copies_.copy(transfer.data, transfers_[i].data, transfer.bytes()));
  }
  return {};
}

void TransferSegments::run(std::size_t, std::byte*, std::byte*, Executor& host) { host.start(std::span(staged_)); }

Status TransferSegments::store(std::size_t, const std::byte*) {
  for (std::size_t i = 0; i < staged_.size(); ++i) {
    const Transfer& transfer = staged_[i];
    if (transfer.data == transfers_[i].data || transfer.kind == Transfer::Kind::kSend) continue;
    TUTTI_TRY(copies_.copy(transfers_[i].data, transfer.data, transfer.bytes()));
  }
  return {};
}

}  // namespace tutti

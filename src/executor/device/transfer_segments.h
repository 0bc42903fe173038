// Staged sends and receives. To the executor that cuts calls into segments they are one segment, whose data comes and
// goes while the host's part runs.
#pragma once

#include <span>
#include <vector>

#include "executor/device/receive_staging.h"
#include "executor/device/send_staging.h"
#include "executor/device/staged_segments.h"

namespace tutti {

/// The data of transfers that is device memory goes through staging memory in pieces.
class TransferSegments final : public StagedSegments, private TransferStaging {
 public:
  explicit TransferSegments(const CopyStream& copies) : copies_(copies) {}

  /// `transfers` stay the caller's and in place until the call has ended. Links carry messages of at most `piece`.
  void begin(std::span<const Transfer> transfers, Bytes piece);
  std::size_t count() const override { return 1; }
  std::size_t segment_bytes() const override;
  Status load(std::size_t, std::byte*) override { return {}; }
  void run(std::size_t segment, std::byte* in, std::byte* out, Executor& host) override;
  Status advance(Executor& host, Progress* outcome) override;
  bool waits_for_copies() const override { return waits_; }
  Status store(std::size_t, const std::byte*) override { return receives_.store(); }

 private:
  const std::byte* read(std::size_t send, Bytes size) override;
  std::byte* write(std::size_t receive, Bytes at, Bytes size) override;
  void move(std::size_t send, std::size_t receive) override;
  void note(Status status, bool found);

  const CopyStream& copies_;
  SendStaging sends_{copies_};
  ReceiveStaging receives_{copies_};
  std::vector<Transfer> staged_;  // the transfers as the host's executor gets them
  Bytes piece_{0};
  bool waits_ = false;  // in this round something was not there yet
  Status fault_;
};

}  // namespace tutti

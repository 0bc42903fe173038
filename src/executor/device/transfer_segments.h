// Staged sends and receives, which are one segment in memory of its own.
#pragma once

#include <span>
#include <vector>

#include "executor/device/copy_stream.h"
#include "executor/device/staged_segments.h"

namespace tutti {

/// Each transfer whose data is device memory gets host memory of its own for as long as it lasts.
class TransferSegments final : public StagedSegments {
 public:
  explicit TransferSegments(const CopyStream& copies) : copies_(copies) {}

  /// `transfers` stay the caller's and in place until the call has ended.
  void begin(std::span<Transfer> transfers);
  std::size_t count() const override { return 1; }
  Status load(std::size_t segment, std::byte* in) override;
  void run(std::size_t segment, std::byte* in, std::byte* out, Executor& host) override;
  Status store(std::size_t segment, const std::byte* out) override;
  void end() override { memories_.clear(); }

 private:
  const CopyStream& copies_;
  std::span<Transfer> transfers_;
  std::vector<Transfer> staged_;                  // the transfers as the host's executor gets them
  std::vector<std::vector<std::byte>> memories_;  // the host memory of staged_
};

}  // namespace tutti

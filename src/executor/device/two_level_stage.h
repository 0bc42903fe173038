// What a call at two levels does on the device before the network and after it: the ranks of a host reduce or hand out
// a segment by kernels, and the rank's share of it goes to host memory or comes from there.
#pragma once

#include <cstddef>
#include <vector>

#include "executor/device/device_executor.h"
#include "executor/device/staged_segments.h"
#include "schedule/host_map.h"

namespace tutti {

/// One call's schedules and where the ranks are. Schedules and map outlive the call.
struct TwoLevelCall {
  const Schedule* first = nullptr;    ///< by kernels, among the ranks of the host; nullptr: nothing to do
  const Schedule* between = nullptr;  ///< by the host's executor, among the ranks of one index
  const Schedule* last = nullptr;     ///< as `first`
  Elems tile{0};                      ///< of `between`
  /// A block of the caller's stays whole, and each host has kernels of its own; else the one block is cut into a share
  /// for each rank of a host.
  bool by_blocks = false;
  HostMap hosts;  ///< all of one size
  int rank = 0;
};

/// One per rank and communicator, with the segments of its calls; its staged executor's stream is the kernels'. All
/// that it puts on the kernels' stream is in the same order on all ranks of the host, which is all that kernels need
/// that wait for one another.
class TwoLevelStage final : public StagedSegments {
 public:
  explicit TwoLevelStage(DeviceExecutor& kernels) : kernels_(kernels) {}

  /// Elements of a block of the part between hosts, in a whole segment.
  static std::size_t block_between(const HostMap& hosts, bool by_blocks, std::size_t count, std::size_t element);

  /// Allocates the device memory of the segments.
  Status open();
  /// Cuts the call into segments. The launch's input and output are the caller's.
  void begin(const Launch& whole, const TwoLevelCall& call);
  std::size_t count() const override { return segments_; }
  DeviceExecutor& kernels() { return kernels_; }
  const DeviceExecutor& kernels() const { return kernels_; }
  DeviceDriver::Stream stream() const { return kernels_.stream(); }
  int device() const { return kernels_.device(); }
  /// Device memory.
  static Bytes memory();

  /// By kernels of the ranks of the host, of which each brings its share of the segment.
  Status load(std::size_t segment, std::byte* in) override;
  /// The part between hosts.
  void run(std::size_t segment, std::byte* in, std::byte* out, Executor& host) override;
  Status store(std::size_t segment, const std::byte* out) override;

 private:
  /// The part of the caller's blocks that a segment works on, and the shares that it has, in elements.
  struct Segment {
    std::size_t first;
    std::size_t count;
    std::size_t share;  ///< of a rank of the host; the last ones may have less
    std::size_t begin_of(int index) const { return std::min(share * static_cast<std::size_t>(index), count); }
    std::size_t count_of(int index) const { return begin_of(index + 1) - begin_of(index); }
  };
  Segment at(std::size_t segment) const;
  std::size_t own(const Segment& segment) const;
  std::byte* slot(std::size_t segment, bool out) const;
  Status launch(const Schedule& schedule, const Segment& segment, int host, const std::byte* input, std::byte* output);
  Status copy(std::byte* to, const std::byte* from, std::size_t elements);
  int index() const { return call_.hosts.index_of[call_.rank]; }
  int ranks() const { return call_.hosts.most; }
  std::size_t bytes(std::size_t elements) const { return elements * whole_.element.value; }

  DeviceExecutor& kernels_;
  std::byte* memory_ = nullptr;  // two segments' input and output

  // Of the running call.
  Launch whole_;
  Launch between_;  // the part between hosts of the segment that runs
  TwoLevelCall call_;
  std::size_t block_ = 0;  // of the part between hosts, in a whole segment
  std::size_t segments_ = 0;
  std::vector<std::size_t> counts_, offsets_;  // of the blocks in the host
};

}  // namespace tutti

// What a call at two levels does on the device before the network and after it. Before, kernels of the ranks of a host
// reduce a segment and the rank's share goes to host memory; after, it comes from there and kernels hand it out.
#pragma once

#include <cstddef>
#include <vector>

#include "executor/device/device_executor.h"
#include "executor/device/staged_segments.h"
#include "schedule/host_map.h"

namespace tutti {

/// One call's schedules, and on which hosts its ranks are. Schedules and map outlive the call.
struct TwoLevelCall {
  const Schedule* first = nullptr;    ///< for kernels, among the ranks of the host; nullptr if there is nothing to do
  const Schedule* between = nullptr;  ///< for the host's executor, among the ranks that have one index in their hosts
  const Schedule* last = nullptr;     ///< for kernels, like `first`
  Elems tile{0};                      ///< of `between`
  /// If true, a block of the caller's stays whole, and there is a kernel for the blocks of each host. If false, the one
  /// block is cut into a share for each rank of a host.
  bool by_blocks = false;
  HostMap hosts;  ///< all hosts have equally many ranks
  int rank = 0;
};

/// One per rank and communicator. It makes the segments of the calls of a staged executor whose stream is the kernels'.
/// All ranks of the host put the same work on that stream in the same order, which is all that kernels need that wait
/// for one another.
class TwoLevelStage final : public StagedSegments {
 public:
  explicit TwoLevelStage(DeviceExecutor& kernels) : kernels_(kernels) {}

  /// How many elements a whole segment has of a block of the part between hosts.
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
  /// How much device memory open() allocates.
  static Bytes memory();

  /// Puts kernels on the stream that make this rank's share of the segment, and the copy that brings it to `in`.
  Status load(std::size_t segment, std::byte* in) override;
  /// Starts the part between hosts.
  void run(std::size_t segment, std::byte* in, std::byte* out, Executor& host) override;
  Status store(std::size_t segment, const std::byte* out) override;

 private:
  /// The part of the caller's blocks that a segment works on, and how it is divided into shares, in elements.
  struct Segment {
    std::size_t first;
    std::size_t count;
    std::size_t share;  ///< what each rank of the host has; the last ones may have less
    std::size_t begin_of(int index) const { return std::min(share * static_cast<std::size_t>(index), count); }
    std::size_t count_of(int index) const { return begin_of(index + 1) - begin_of(index); }
  };
  Segment at(std::size_t segment) const;
  std::size_t own(const Segment& segment) const;
  std::byte* slot(std::size_t segment, bool out) const;
  Status launch(const Schedule& schedule, const Segment& segment, int host, const std::byte* input, std::byte* output);
  Status copy(std::byte* to, const std::byte* from, std::size_t elements);
  int index() const { return call_.hosts.index_of(call_.rank); }
  int ranks() const { return call_.hosts.most; }
  std::size_t bytes(std::size_t elements) const { return elements * whole_.element.value; }

  DeviceExecutor& kernels_;
  std::byte* memory_ = nullptr;  // two segments' input and output

  // The running call.
  Launch whole_;
  Launch between_;  // the part between hosts of the segment that runs
  TwoLevelCall call_;
  std::size_t block_ = 0;  // block_between() of the call
  std::size_t segments_ = 0;
  std::vector<std::size_t> counts_, offsets_;  // those of the blocks of a host's ranks
};

}  // namespace tutti

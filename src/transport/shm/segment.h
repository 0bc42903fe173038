// Segment: shared memory of the ranks of a host (a sealed memfd), or a rank's part of one. It never has a name in
// /dev/shm, so nothing is left behind when ranks are killed, and the size of /dev/shm does not matter.
#pragma once

#include <cstddef>
#include <memory>

#include "core/status.h"
#include "core/units.h"

namespace tutti {

/// A mapping of a memfd and the descriptor to pass on. Pages are zero and cost nothing until touched. Unmapped and
/// closed by the destructor. A process maps a segment once and shares it, or parts of it, among its ranks.
class Segment {
 public:
  /// The size of a segment's front, which all who map it look at.
  static constexpr Bytes kFrontBytes{4096};

  /// A new segment of `bytes`, sealed against shrinking and growing, close-on-exec. Thread-safe.
  static Status create(Bytes bytes, std::shared_ptr<Segment>* segment);
  /// Maps a descriptor received from a peer and takes ownership of it. Checks that it is a memfd of exactly `bytes`
  /// with the seals on, so that a peer cannot make this process fault.
  static Status adopt(int descriptor, Bytes bytes, std::shared_ptr<Segment>* segment);

  /// Returns the `bytes` of `whole` from `offset` on, with the front at `front`, or nullptr if they are not within it.
  /// `whole` stays mapped for as long as any part of it is used. A part has no descriptor.
  static std::shared_ptr<Segment> part(std::shared_ptr<Segment> whole, Bytes front, Bytes offset, Bytes bytes);

  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  std::byte* data() const { return data_; }
  /// The first page: that of data(), or one beside the fronts of other parts, in place of it. Of thousands of ranks
  /// that are far apart in memory, each page that is looked at would cost two pages of page tables in every process.
  std::byte* front() const { return front_; }
  Bytes size() const { return size_; }
  int descriptor() const { return descriptor_; }

 private:
  Segment(int descriptor, std::byte* data, Bytes size)
      : descriptor_(descriptor), data_(data), front_(data), size_(size) {}
  int descriptor_;  // -1 if this is a part
  std::byte* data_;
  std::byte* front_;
  Bytes size_;
  std::shared_ptr<Segment> whole_;  // what this is a part of, if it is one
};

}  // namespace tutti

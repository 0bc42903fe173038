// The staging memory of receives. Copies take data from it while the next messages come.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "executor/device/copy_stream.h"
#include "executor/transfer.h"

namespace tutti {

/// The receives of one call whose data is device memory. They share a ring of chunks: data is put there in the order in
/// which it comes, whoever sent it, so a chunk waits for no peer. The thread that drives the call uses this.
class ReceiveStaging {
 public:
  explicit ReceiveStaging(const CopyStream& copies) : copies_(copies) {}

  /// Forgets the call before. What follows until begin() says what the next call receives.
  void clear();
  /// `foreign`: as CopyStream::copy() has it.
  void add(std::size_t transfer, const Transfer& receive, bool foreign);
  /// The size of the largest receive.
  Bytes largest() const { return largest_; }
  /// The call uses `memory` from now on. Transfers are cut into pieces of at most `piece`, one of which fits into it.
  void begin(std::byte* memory, Bytes room, Bytes piece);

  /// See TransferStaging. `data` becomes nullptr if no memory is free yet.
  Status write(std::size_t transfer, Bytes at, Bytes size, std::byte** data);
  /// The receive's memory on the device.
  std::byte* target(std::size_t transfer) const { return receives_[transfer].data; }
  /// Starts the copies of a chunk that may have no room for another piece. What was written before is complete.
  Status store_full();
  /// Starts the copies of all that was written.
  Status store();

 private:
  struct Receive {
    std::byte* data = nullptr;
    bool foreign = false;
  };
  /// Bytes of one receive that lie together in a chunk.
  struct Part {
    std::size_t transfer;
    std::size_t at;  // in the receive
    std::size_t place;
    std::size_t bytes;
    std::size_t end() const { return place + bytes; }
  };
  struct Chunk {
    std::byte* memory = nullptr;
    std::vector<Part> parts;
    StreamPoint stored;
  };

  std::size_t used() const { return chunk().parts.empty() ? 0 : chunk().parts.back().end(); }
  Chunk& chunk() { return chunks_[at_]; }
  const Chunk& chunk() const { return chunks_[at_]; }

  const CopyStream& copies_;
  Bytes largest_{0};
  std::vector<Receive> receives_;  // by transfer; also has those that are not on a device
  std::size_t piece_ = 0;
  std::size_t chunk_bytes_ = 0;
  std::size_t count_ = 0;     // chunks of this call
  std::size_t at_ = 0;        // the chunk that is filled
  std::deque<Chunk> chunks_;  // with those of earlier calls, whose events are used again
};

}  // namespace tutti

// The staging memory of sends. Copies bring the data of the next messages to it while links take the messages before.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "executor/device/copy_stream.h"
#include "executor/transfer.h"

namespace tutti {

/// The sends of one call whose data is device memory. A peer that takes nothing holds up only what is for itself: each
/// peer has two chunks of its own, of which one is filled while the other one is sent. If there are more peers than the
/// memory has room for, a peer gets memory for one piece when its link has room for that piece, and gives it back with
/// it. The thread that drives the call uses this.
class SendStaging {
 public:
  explicit SendStaging(const CopyStream& copies) : copies_(copies) {}

  /// Forgets the call before. What follows until begin() says what the next call sends.
  void clear();
  /// `foreign`: as CopyStream::copy() has it.
  void add(std::size_t transfer, const Transfer& send, bool foreign);
  /// The size of the largest send.
  Bytes largest() const { return largest_; }
  /// The call uses `memory` from now on. Transfers are cut into pieces of at most `piece`, one of which fits into it.
  void begin(std::byte* memory, Bytes room, Bytes piece);

  /// See TransferStaging. `data` becomes nullptr if the bytes are not there yet.
  Status read(std::size_t transfer, Bytes size, const std::byte** data);
  /// The send's data, which is not to be read any more.
  const std::byte* take_out(std::size_t transfer);
  /// Starts the copies for which there is room. What was read before is not used any more.
  Status load_ahead();

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};

  struct Send {
    std::size_t transfer;
    const std::byte* data;
    std::size_t bytes;
    bool foreign;
  };
  /// The sends to one peer, in their order.
  struct Queue {
    Rank peer;
    std::vector<Send> sends;
    std::size_t next = 0;    // the send that is loaded next
    std::size_t loaded = 0;  // how many bytes of it have been
    std::size_t lane = kNone;
  };
  /// Bytes of one send that lie together in a chunk.
  struct Part {
    std::size_t transfer;
    std::size_t place;
    std::size_t bytes;
  };
  struct Chunk {
    std::byte* memory = nullptr;
    std::vector<Part> parts;
    std::size_t reading = 0;  // the part that is read
    std::size_t done = 0;     // how many bytes of it have been
    bool is_there = false;
    StreamPoint loaded;
  };
  /// The chunks of one peer, each filled and then read in turn.
  struct Lane {
    std::size_t queue = kNone;
    std::size_t filled = 0;
    std::size_t read = 0;  // chunks
  };

  Chunk& chunk(const Lane& lane, std::size_t number);
  Lane* lane_of(Queue* queue);
  Status fill(Queue* queue, Lane* lane);
  Status fill(Queue* queue, Chunk* chunk);
  void make_lanes(std::byte* memory, std::size_t room);

  const CopyStream& copies_;
  Bytes largest_{0};
  std::vector<Queue> queues_;
  std::vector<std::size_t> queue_of_;  // by transfer
  std::size_t piece_ = 0;
  bool is_scarce_ = false;  // lanes go from peer to peer
  std::size_t chunks_a_lane_ = 0;
  std::size_t chunk_bytes_ = 0;
  std::vector<Lane> lanes_;
  std::deque<Chunk> chunks_;  // with those of earlier calls, whose events are used again
};

}  // namespace tutti

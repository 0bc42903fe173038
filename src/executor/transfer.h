// A send or receive, how its data is reached if the processor cannot reach it itself, and the view of an operation's
// sends and receives that judges of waits have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/types.h"
#include "core/units.h"

namespace tutti {

/// Moves the data of an operation's transfers to and from host memory, a piece at a time, where it is memory that the
/// processor does not reach. Transfers are named by their places in the operation. For the thread that drives them.
/// This is an interface because the messages are moved by code that knows nothing of devices.
class TransferStaging {
 public:
  virtual ~TransferStaging() = default;

  /// Returns host memory with the next `size` bytes of a send's data, or nullptr if they are not there yet. The sends
  /// to one rank are read in their order, and each in the same pieces: of the size that the links name
  /// (Capabilities::piece), the last one smaller. The memory is to be used before the next call of any function.
  virtual const std::byte* read(std::size_t send, Bytes size) = 0;
  /// Returns host memory to be filled with the `size` bytes of a receive's data that begin `at` bytes after its start,
  /// or nullptr if none is free yet. It is to be filled before the next call of any function.
  virtual std::byte* write(std::size_t receive, Bytes at, Bytes size) = 0;
  /// Moves all of a send's data to a receive of the same size. Nothing of that send has been read.
  virtual void move(std::size_t send, std::size_t receive) = 0;
};

/// A send to, or a receive from, one other rank or this one. The buffer and what `source` points to belong to the
/// transfer until it has ended.
struct Transfer {
  enum class Kind : std::uint8_t { kSend, kReceive };
  Kind kind = Kind::kSend;
  DataType type = DataType::kUint8;
  Rank peer = kNoRank;  ///< kNoRank: receive from any rank
  int tag = 0;
  std::byte* data = nullptr;  ///< a send does not write it
  Elems count;
  int* source = nullptr;               ///< where a receive writes whose message it got; may be nullptr
  TransferStaging* staging = nullptr;  ///< moves the data; nullptr: the processor reaches it, or there is none

  Bytes bytes() const { return Bytes{count.value * size_of(type).value}; }
};

/// What the judge of a wait may ask of the transfers of the operation that runs or ran last. For the thread that drives
/// them. This is an interface because the judge is compiled once and PointToPoint once for each transport.
class OpenTransfers {
 public:
  virtual ~OpenTransfers() = default;

  /// Says which message did not fit its receive; empty if all did.
  virtual const std::string& fault() const = 0;
  /// The first transfer that has not ended, or nullptr.
  virtual const Transfer* open_transfer() const = 0;
  /// Whether a transfer with this rank has not ended; a receive from any is with all ranks.
  virtual bool is_open_with(Rank peer) const = 0;
};

}  // namespace tutti

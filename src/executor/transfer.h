// Sends and receives: one of them, and those of an operation that are under way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/types.h"
#include "core/units.h"

namespace tutti {

/// A send to, or a receive from, one other rank or this one. The buffer and what `source` points to are the caller's
/// until the transfer ended.
struct Transfer {
  enum class Kind : std::uint8_t { kSend, kReceive };
  Kind kind = Kind::kSend;
  DataType type = DataType::kUint8;
  Rank peer = kNoRank;  ///< kNoRank: receive from any
  int tag = 0;
  std::byte* data = nullptr;  ///< of a send: not written
  Elems count;
  int* source = nullptr;  ///< where a receive says whose message it got; may be nullptr

  Bytes bytes() const { return Bytes{count.value * size_of(type).value}; }
};

/// The transfers of the operation that runs, or ran last, as a wait for them is judged. By the thread that drives them.
/// An interface, because the judge is compiled once and PointToPoint once per transport.
class OpenTransfers {
 public:
  virtual ~OpenTransfers() = default;

  /// What did not fit; empty: nothing.
  virtual const std::string& fault() const = 0;
  /// The first transfer that has not ended; nullptr: none.
  virtual const Transfer* open_transfer() const = 0;
  /// Whether a transfer that has not ended is with this rank; a receive from any is with all.
  virtual bool is_open_with(Rank peer) const = 0;
};

}  // namespace tutti

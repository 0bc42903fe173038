// A send or receive, and the view of an operation's sends and receives that judges of waits have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/types.h"
#include "core/units.h"

namespace tutti {

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
  int* source = nullptr;  ///< where a receive writes whose message it got; may be nullptr

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

// What processes tell each other while their ranks shrink a communicator. docs/design/recovery.md has the protocol.
#pragma once

#include <cstdint>
#include <string>

#include "comm/messages/messages.h"
#include "comm/messages/unique_id.h"
#include "comm/recovery/number_set.h"
#include "core/code.h"

namespace tutti {

/// How far a shrink is: in an order what the leader wants, in a report how far the sender is.
enum class ShrinkStage : std::uint8_t {
  kAsked = 0,      ///< the leader wants reports
  kBuilding = 1,   ///< the members join each other
  kBuilt = 2,      ///< in reports: the sender's members have joined
  kFailed = 3,     ///< in reports: they could not
  kCommitted = 4,  ///< all members have joined, and nobody returns before all know that
  kDecided = 5,    ///< in orders: all know it, so this is how the shrink ended
};

/// How a shrink may end.
struct Proposal {
  NumberSet members;      ///< the ranks of the old communicator that are in the new one
  IdBytes id{};           ///< they join by it; its secret, which never travels, is zeroed
  Code code = Code::kOk;  ///< if it is not kOk, the shrink fails with this, and nobody is left out
  std::string text;
  auto operator<=>(const Proposal&) const = default;
};

/// From a process to the one that leads. It is the whole of what the leader needs to know, so the newest one counts.
struct ShrinkReport {
  std::uint64_t round = 1;     ///< k for the k-th shrink of the communicator
  std::uint64_t promised = 0;  ///< the highest number of an order; lower ones are not followed any more
  std::uint64_t number = 0;    ///< of the proposal that follows; 0 if there was none
  ShrinkStage stage = ShrinkStage::kAsked;
  Proposal proposal;
  Code failure = Code::kOk;  ///< why the members here could not join
  std::string text;
  NumberSet called;      ///< the sender's ranks that have called Shrink
  NumberSet awaited;     ///< those that live and have not
  NumberSet excluded;    ///< the ranks that callers exclude
  NumberSet out;         ///< the places of processes that count as gone
  bool overdue = false;  ///< the deadline of a caller has passed, so nobody waits any more for who has not called
  bool asks = false;     ///< the leader is to repeat its order
  auto operator<=>(const ShrinkReport&) const = default;
};

/// From the process that leads to the others.
struct ShrinkOrder {
  std::uint64_t round = 1;
  std::uint64_t number = 0;
  ShrinkStage stage = ShrinkStage::kAsked;
  Proposal proposal;
  NumberSet out;
  bool overdue = false;
  auto operator<=>(const ShrinkOrder&) const = default;
};

std::vector<std::byte> encode(const ShrinkReport& message);
std::vector<std::byte> encode(const ShrinkOrder& message);
/// Return kRemoteError if these are not the bytes of such a message, or a value is out of range.
Status decode(ByteView data, ShrinkReport* message);
Status decode(ByteView data, ShrinkOrder* message);

}  // namespace tutti

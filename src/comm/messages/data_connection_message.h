// The messages by which hubs make data connections, the TCP streams that carry a communicator's data: one for each pair
// of ranks and lane.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/messages/messages.h"

namespace tutti {

/// How many lanes may have data connections; a larger number is refused.
inline constexpr int kMaxLanes = 64;

/// kOpenData, and kDataOpened as the answer to it.
struct DataConnectionMessage {
  ProcessId process{};  ///< the process that sends this
  Rank from = kNoRank;  ///< a rank of that process
  Rank to = kNoRank;
  Lane lane{0};
};

/// kRequestDial: "dial me".
struct RequestDialMessage {
  Rank from = kNoRank;  ///< the rank that asks
  Rank to = kNoRank;    ///< the rank that is asked to dial
  Lane lane{0};
  std::uint32_t streams = 0;  ///< how many came so far; if the other end counts more, a newer one is on its way already
};

std::vector<std::byte> encode(const DataConnectionMessage& message);
std::vector<std::byte> encode(const RequestDialMessage& message);
Status decode(ByteView data, DataConnectionMessage* message);
Status decode(ByteView data, RequestDialMessage* message);

}  // namespace tutti

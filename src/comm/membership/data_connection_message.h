// The messages by which hubs make data connections, the TCP streams that carry a communicator's data: one for each pair
// of ranks and lane.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/membership/messages.h"

namespace tutti {

/// Lanes that a data connection may be for; more is refused as nonsense.
inline constexpr int kMaxLanes = 64;

/// kOpenData, and kDataOpened as the answer to it.
struct DataConnectionMessage {
  ProcessId process{};  ///< the process that speaks
  Rank from = kNoRank;  ///< of that process
  Rank to = kNoRank;
  Lane lane{0};
};

/// kRequestDial: "dial me".
struct RequestDialMessage {
  Rank from = kNoRank;  ///< who asks
  Rank to = kNoRank;    ///< who is to dial
  Lane lane{0};
  std::uint32_t streams = 0;  ///< that came so far: a newer one is on its way already if the other end counts more
};

std::vector<std::byte> encode(const DataConnectionMessage& message);
std::vector<std::byte> encode(const RequestDialMessage& message);
Status decode(ByteView data, DataConnectionMessage* message);
Status decode(ByteView data, RequestDialMessage* message);

}  // namespace tutti

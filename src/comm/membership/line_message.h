// What hubs say about lines: the TCP streams that carry a communicator's data, one a pair of ranks and lane.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/membership/messages.h"

namespace tutti {

/// Lanes that a line may be for; more is refused as nonsense.
inline constexpr int kMaxLanes = 64;

/// kOpenLine, and kLineOpened as the answer to it.
struct LineMessage {
  ProcessId process{};  ///< that speaks
  Rank from = kNoRank;  ///< of that process
  Rank to = kNoRank;
  Lane lane{0};
};

/// kAskLine: "dial me".
struct AskLineMessage {
  Rank from = kNoRank;  ///< who asks
  Rank to = kNoRank;    ///< who is to dial
  Lane lane{0};
  std::uint32_t streams = 0;  ///< that came so far: a newer one is on its way already if the other end counts more
};

std::vector<std::byte> encode(const LineMessage& message);
std::vector<std::byte> encode(const AskLineMessage& message);
Status decode(ByteView data, LineMessage* message);
Status decode(ByteView data, AskLineMessage* message);

}  // namespace tutti

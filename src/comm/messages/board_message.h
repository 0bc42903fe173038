// A call board as it travels to ranks that cannot read its memory.
#pragma once

#include <vector>

#include "comm/messages/messages.h"
#include "core/call_board.h"

namespace tutti {

/// Bytes of a call in a message.
inline constexpr std::size_t kCallSize = 24;

/// kBoard: how a rank's board stands, and its newest calls.
struct BoardMessage {
  Rank rank = kNoRank;
  BoardState state;
  std::vector<Call> calls;  ///< oldest first, none newer than the state's
};

/// Whether a board can show this call, as far as its kind and types go.
bool is_possible(const Call& call);

/// Reads a board's state and its newest calls, `depth` at most. Any thread that the board's writer does not wait for.
BoardMessage read_board(Rank rank, const CallBoard& board, std::uint64_t depth);
/// Writes what a message says on a copy. It is called by the copy's only writer.
void write_board(const BoardMessage& message, CallBoard* copy);

std::vector<std::byte> encode(const BoardMessage& message);
/// Refuses values that no board can show. Whether the ranks exist is for the caller to check.
Status decode(ByteView data, BoardMessage* message);

}  // namespace tutti

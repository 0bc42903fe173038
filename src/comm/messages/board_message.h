// A call board as it travels to ranks that cannot read its memory.
#pragma once

#include <vector>

#include "comm/messages/messages.h"
#include "core/call_board.h"
#include "net/message_fields.h"

namespace tutti {

/// kBoard: how a rank's board stands, and its newest calls.
struct BoardMessage {
  Rank rank = kNoRank;
  BoardState state;
  std::vector<Call> calls;  ///< oldest first, none newer than the state's
};

/// Returns the calls up to this one that the board shows, oldest first and `depth` at most.
std::vector<Call> calls_up_to(const CallBoard& board, std::uint64_t newest, std::uint64_t depth);
/// Reads a board's state and its newest calls, `depth` at most. Any thread that the board's writer does not wait for.
BoardMessage read_board(Rank rank, const CallBoard& board, std::uint64_t depth);
/// Writes what a message says on a copy. It is called by the copy's only writer.
void write_board(const BoardMessage& message, CallBoard* copy);

/// The fields of a message's list of calls. The reader refuses calls that no board can show, and any other order than
/// that of their numbers.
void call_fields(FieldWriter& io, const std::vector<Call>& calls, std::size_t most);
void call_fields(FieldReader& io, std::vector<Call>& calls, std::size_t most);

std::vector<std::byte> encode(const BoardMessage& message);
/// Refuses values that no board can show. Whether the ranks exist is for the caller to check.
Status decode(ByteView data, BoardMessage* message);

}  // namespace tutti

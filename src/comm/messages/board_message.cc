#include "comm/messages/board_message.h"

#include <algorithm>

namespace tutti {

bool is_possible(const Call& call) {
  return static_cast<int>(call.collective) < kCollectives && static_cast<int>(call.type) < kDataTypes &&
         static_cast<int>(call.wire) < kDataTypes;
}

BoardMessage read_board(Rank rank, const CallBoard& board, std::uint64_t depth) {
  BoardMessage message{rank, board.state(), {}};
  const std::uint64_t newest = message.state.sequence;
  const std::uint64_t count = std::min({depth, newest, CallBoard::kHistory});
  for (std::uint64_t sequence = newest - count + 1; sequence <= newest; ++sequence)
    if (const PostedCall posted = board.find(sequence); posted.known) message.calls.push_back(posted.call);
  return message;
}

void write_board(const BoardMessage& message, CallBoard* copy) {
  for (const Call& call : message.calls) copy->copy_call(call);
  copy->copy_state(message.state);
}

std::vector<std::byte> encode(const BoardMessage& message) {
  MessageWriter out;
  out.rank(message.rank);
  out.u64(message.state.sequence);
  out.u8(static_cast<std::uint8_t>(message.state.state));
  out.u32(static_cast<std::uint32_t>(message.state.waiting_for.number()));
  out.u32(static_cast<std::uint32_t>(message.calls.size()));
  for (const Call& call : message.calls) {
    out.u64(call.sequence);
    out.u64(call.count);
    out.u64(pack_call(call));
  }
  return out.data();
}

Status decode(ByteView data, BoardMessage* message) {
  MessageReader in(data);
  message->rank = in.rank();
  message->state.sequence = in.u64();
  const std::uint8_t state = in.u8();
  message->state.state = static_cast<CallState>(state);
  message->state.waiting_for = ClaimedRank(static_cast<std::int32_t>(in.u32()));
  if (state > static_cast<std::uint8_t>(CallState::kPointToPoint) || message->state.sequence >> 62 != 0 ||
      message->state.waiting_for.number() < kNoRank.value)
    in.refuse();
  message->calls.resize(in.count(CallBoard::kHistory, kCallSize));
  std::uint64_t last = 0;
  for (Call& call : message->calls) {
    call.sequence = in.u64();
    call.count = in.u64();
    unpack_call(in.u64(), &call);
    if (call.sequence <= last || call.sequence > message->state.sequence || !is_possible(call)) in.refuse();
    last = call.sequence;
  }
  return in.finish("board");
}

}  // namespace tutti

#include "comm/messages/board_message.h"

#include <algorithm>

namespace tutti {

namespace {

constexpr std::size_t kCallSize = 24;

bool is_possible(const Call& call) {
  return static_cast<int>(call.collective) < kCollectives && static_cast<int>(call.type) < kDataTypes &&
         static_cast<int>(call.wire) < kDataTypes;
}

}  // namespace

std::vector<Call> calls_up_to(const CallBoard& board, std::uint64_t newest, std::uint64_t depth) {
  std::vector<Call> calls;
  const std::uint64_t count = std::min({depth, newest, CallBoard::kHistory});
  for (std::uint64_t sequence = newest - count + 1; sequence <= newest; ++sequence)
    if (const PostedCall posted = board.find(sequence); posted.known) calls.push_back(posted.call);
  return calls;
}

BoardMessage read_board(Rank rank, const CallBoard& board, std::uint64_t depth) {
  const BoardState state = board.state();
  return {rank, state, calls_up_to(board, state.sequence, depth)};
}

void write_board(const BoardMessage& message, CallBoard* copy) {
  for (const Call& call : message.calls) copy->copy_call(call);
  copy->copy_state(message.state);
}

void call_fields(FieldWriter& io, const std::vector<Call>& calls, std::size_t most) {
  io.list(calls, most, kCallSize, [&](const Call& call) { io(call.sequence, call.count, pack_call(call)); });
}

void call_fields(FieldReader& io, std::vector<Call>& calls, std::size_t most) {
  std::uint64_t last = 0;
  io.list(calls, most, kCallSize, [&](Call& call) {
    std::uint64_t what = 0;
    io(call.sequence, call.count, what);
    unpack_call(what, &call);
    io.check(call.sequence > last && is_possible(call));
    last = call.sequence;
  });
}

std::vector<std::byte> encode(const BoardMessage& message) {
  FieldWriter io;
  io(message.rank, message.state.sequence, static_cast<std::uint8_t>(message.state.state));
  io(message.state.waiting_for.number());
  call_fields(io, message.calls, CallBoard::kHistory);
  return io.data();
}

Status decode(ByteView data, BoardMessage* message) {
  FieldReader io(data);
  std::uint8_t state = 0;
  std::int32_t waiting_for = 0;
  io(message->rank, message->state.sequence, state, waiting_for);
  io.check(state <= static_cast<std::uint8_t>(CallState::kPointToPoint) && message->state.sequence >> 62 == 0);
  io.check(waiting_for >= kNoRank.value);
  message->state.state = static_cast<CallState>(state);
  message->state.waiting_for = ClaimedRank(waiting_for);
  call_fields(io, message->calls, CallBoard::kHistory);
  io.check(message->calls.empty() || message->calls.back().sequence <= message->state.sequence);
  return io.finish("board");
}

}  // namespace tutti

#include "comm/membership/data_connection_message.h"

namespace tutti {
namespace {

void write_lane(MessageWriter& out, Lane lane) { out.u32(lane.value); }

Lane read_lane(MessageReader& in) {
  const std::uint32_t lane = in.u32();
  if (lane >= static_cast<std::uint32_t>(kMaxLanes)) in.refuse();
  return Lane{static_cast<std::uint16_t>(in.bad() ? 0 : lane)};
}

}  // namespace

std::vector<std::byte> encode(const DataConnectionMessage& message) {
  MessageWriter out;
  out.rank(message.from);
  out.rank(message.to);
  write_lane(out, message.lane);
  out.bytes(message.process);
  return out.data();
}

Status decode(ByteView data, DataConnectionMessage* message) {
  MessageReader in(data);
  message->from = in.rank();
  message->to = in.rank();
  message->lane = read_lane(in);
  in.bytes(message->process);
  return in.finish("data connection");
}

std::vector<std::byte> encode(const RequestDialMessage& message) {
  MessageWriter out;
  out.rank(message.from);
  out.rank(message.to);
  write_lane(out, message.lane);
  out.u32(message.streams);
  return out.data();
}

Status decode(ByteView data, RequestDialMessage* message) {
  MessageReader in(data);
  message->from = in.rank();
  message->to = in.rank();
  message->lane = read_lane(in);
  message->streams = in.u32();
  return in.finish("request to dial");
}

}  // namespace tutti

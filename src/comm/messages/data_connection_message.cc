#include "comm/messages/data_connection_message.h"

#include "net/message_fields.h"

namespace tutti {

template <class Io>
const char* fields(Io& io, Of<DataConnectionMessage> auto& m) {
  io(m.from, m.to, m.lane, m.process);
  io.check(m.lane.value < kMaxLanes);
  return "data connection";
}

template <class Io>
const char* fields(Io& io, Of<RequestDialMessage> auto& m) {
  io(m.from, m.to, m.lane, m.streams);
  io.check(m.lane.value < kMaxLanes);
  return "request to dial";
}

std::vector<std::byte> encode(const DataConnectionMessage& message) { return write_fields(message); }
std::vector<std::byte> encode(const RequestDialMessage& message) { return write_fields(message); }
Status decode(ByteView data, DataConnectionMessage* message) { return read_fields(data, message); }
Status decode(ByteView data, RequestDialMessage* message) { return read_fields(data, message); }

}  // namespace tutti

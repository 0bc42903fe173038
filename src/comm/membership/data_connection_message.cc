#include "comm/membership/data_connection_message.h"

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

template std::vector<std::byte> encode(const DataConnectionMessage&);
template Status decode(ByteView, DataConnectionMessage*);
template std::vector<std::byte> encode(const RequestDialMessage&);
template Status decode(ByteView, RequestDialMessage*);

}  // namespace tutti

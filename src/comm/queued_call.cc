#include "comm/queued_call.h"

#include <cstring>

namespace tutti {

bool QueuedCall::combines_with(const QueuedCall& other) const {
  if (!collective_ || !other.collective_) return false;
  const CallArguments& a = arguments();
  const CallArguments& b = other.arguments();
  return a.collective == Collective::kAllReduce && b.collective == Collective::kAllReduce && a.type == b.type &&
         a.op == b.op && a.wire == b.wire && a.user == nullptr && b.user == nullptr && a.count != 0 && b.count != 0;
}

Bytes QueuedCall::bytes() const {
  return Bytes{arguments().count * size_of(static_cast<DataType>(arguments().type)).value};
}

void QueuedCall::combine(const QueuedCall& other) {
  if (parts_.empty()) parts_.push_back(Part{arguments().send, arguments().recv, bytes()});
  parts_.push_back(Part{other.arguments().send, other.arguments().recv, other.bytes()});
  arguments_.edit()->count += other.arguments().count;
}

void QueuedCall::pack() {
  if (parts_.empty()) return;
  packed_ = std::make_unique_for_overwrite<std::byte[]>(bytes().value);
  std::byte* at = packed_.get();
  for (const Part& part : parts_) {
    std::memcpy(at, part.send, part.bytes.value);
    at += part.bytes.value;
  }
  arguments_.edit()->send = arguments_.edit()->recv = packed_.get();
}

void QueuedCall::unpack() {
  const std::byte* at = packed_.get();
  if (at == nullptr) return;
  for (const Part& part : parts_) {
    std::memcpy(part.recv, at, part.bytes.value);
    at += part.bytes.value;
  }
}

}  // namespace tutti

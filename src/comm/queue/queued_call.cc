#include "comm/queue/queued_call.h"

namespace tutti {

Bytes QueuedCall::bytes() const {
  const CallArguments& a = arguments_.get();
  return Bytes{a.count * size_of(static_cast<DataType>(a.type)).value};
}

void QueuedCall::follow(QueuedCall* first, bool input_comes_later) {
  if (first->pack_ == nullptr) {
    first->pack_ = std::make_shared<PackedReduction>();
    first->part_ = first->pack_->add(first->arguments(), false);
  }
  pack_ = first->pack_;
  part_ = pack_->add(arguments(), input_comes_later);
}

bool QueuedCall::prepare() {
  if (pack_ == nullptr) return true;
  if (part_ == 0) {
    exchange_ = pack_->exchange();
    exchanging_ = true;
    return true;
  }
  if (!pack_->settled()) return true;
  pack_->take(part_);
  return false;
}

bool QueuedCall::again() {
  if (!exchanging_) return false;
  exchanging_ = false;
  if (!pack_->settle()) return true;
  pack_->take(0);
  return false;
}

}  // namespace tutti

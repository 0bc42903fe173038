#include "comm/membership/member_event_batch.h"

#include <algorithm>

namespace tutti {

void MemberEventBatch::add(const std::vector<MemberEvent>& items) {
  waiting_.insert(waiting_.end(), items.begin(), items.end());
  const auto urgent = [](const MemberEvent& item) { return item.kind == MemberEventKind::kDead; };
  if (std::any_of(items.begin(), items.end(), urgent)) return flush();
  if (timer_ == 0 && !waiting_.empty())
    timer_ = loop_.after(kPause, [this] {
      timer_ = 0;
      flush();
    });
}

void MemberEventBatch::flush() {
  loop_.cancel(timer_);
  timer_ = 0;
  if (!waiting_.empty()) send_(std::exchange(waiting_, {}));
}

}  // namespace tutti

#include "comm/membership/member_event_batch.h"

#include <algorithm>

namespace tutti {

void MemberEventBatch::add(const std::vector<MemberEvent>& items) {
  waiting_.insert(waiting_.end(), items.begin(), items.end());
  const auto urgent = [](const MemberEvent& item) { return item.kind == MemberEventKind::kDead; };
  if (std::any_of(items.begin(), items.end(), urgent)) return flush();
  if (timer_ == 0 && !waiting_.empty())
    timer_ = loop_.after(pause_, [this] {
      timer_ = 0;
      flush();
    });
}

void MemberEventBatch::set_pace(int ranks_per_core) {
  constexpr std::chrono::microseconds kShortest{5'000}, kEach{200}, kLongest{100'000};
  pause_ = std::clamp(ranks_per_core * kEach, kShortest, kLongest);
}

void MemberEventBatch::flush() {
  const std::vector<MemberEvent> items = std::exchange(waiting_, {});
  clear();
  if (!items.empty()) send_(items);
}

void MemberEventBatch::clear() {
  loop_.cancel(timer_);
  timer_ = 0;
  waiting_.clear();
}

}  // namespace tutti

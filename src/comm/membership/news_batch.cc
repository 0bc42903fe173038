#include "comm/membership/news_batch.h"

#include <algorithm>

namespace tutti {

void NewsBatch::add(const std::vector<NewsItem>& items) {
  waiting_.insert(waiting_.end(), items.begin(), items.end());
  const auto urgent = [](const NewsItem& item) { return item.kind == NewsKind::kDead; };
  if (std::any_of(items.begin(), items.end(), urgent)) return flush();
  if (timer_ == 0 && !waiting_.empty())
    timer_ = loop_.after(kPause, [this] {
      timer_ = 0;
      flush();
    });
}

void NewsBatch::flush() {
  loop_.cancel(timer_);
  timer_ = 0;
  if (!waiting_.empty()) send_(std::exchange(waiting_, {}));
}

}  // namespace tutti

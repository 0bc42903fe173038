#include "comm/join/oversubscription.h"

#include <algorithm>
#include <set>
#include <utility>

#include "comm/membership/hub.h"
#include "core/mutex.h"

namespace tutti {

/// How many ranks share a core in each communicator of this process that has more ranks than cores.
struct Oversubscription::Counts {
  Mutex mutex;
  std::multiset<int> ranks_per_core TUTTI_GUARDED_BY(mutex);
};

/// A communicator's part in the counts.
class Oversubscription::Mark {
 public:
  Mark(std::shared_ptr<Counts> counts, int ranks_per_core) : counts_(std::move(counts)) {
    const MutexLock lock(counts_->mutex);
    place_ = counts_->ranks_per_core.insert(ranks_per_core);
  }
  ~Mark() {
    const MutexLock lock(counts_->mutex);
    counts_->ranks_per_core.erase(place_);
  }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

 private:
  const std::shared_ptr<Counts> counts_;
  std::multiset<int>::iterator place_;
};

Oversubscription::Oversubscription(int ranks, int cores) : ranks_per_core_((ranks + cores - 1) / cores) {
  constexpr std::uint64_t kOfAll = 0;
  const bool too_many = ranks_per_core_ > 1;
  const std::shared_ptr<Counts> counts = Hub::shared<Counts>(
      kOfAll, [too_many] { return too_many ? std::make_shared<Counts>() : std::shared_ptr<Counts>(); });
  if (counts == nullptr) return;
  if (too_many) mark_ = std::make_shared<const Mark>(counts, ranks_per_core_);
  const MutexLock lock(counts->mutex);
  if (!counts->ranks_per_core.empty()) ranks_per_core_ = std::max(ranks_per_core_, *counts->ranks_per_core.rbegin());
}

}  // namespace tutti

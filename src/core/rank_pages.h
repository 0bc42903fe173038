// A table by rank of which most entries are never needed.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <vector>

#include "core/units.h"

namespace tutti {

/// Entries are made, from `Entry()`, in pages of 64 when the first of a page is needed, and stay where they are. One
/// thread makes them; any thread looks for them.
template <class Entry>
class RankPages {
 public:
  explicit RankPages(int ranks) : ranks_(ranks), pages_((static_cast<std::size_t>(ranks) + kPage - 1) / kPage) {}
  RankPages(const RankPages&) = delete;
  RankPages& operator=(const RankPages&) = delete;
  ~RankPages() {
    for (const std::atomic<Page*>& page : pages_) delete page.load(std::memory_order_relaxed);
  }

  int ranks() const { return ranks_; }
  /// nullptr if no entry of its page was made.
  Entry* find(Rank rank) const {
    Page* const page = pages_[page_of(rank)].load(std::memory_order_acquire);
    return page == nullptr ? nullptr : &(*page)[static_cast<std::size_t>(rank.value) % kPage];
  }
  Entry& make(Rank rank) {
    if (Entry* const there = find(rank)) return *there;
    pages_[page_of(rank)].store(new Page(), std::memory_order_release);
    return *find(rank);
  }

 private:
  static constexpr std::size_t kPage = 64;
  using Page = std::array<Entry, kPage>;
  static std::size_t page_of(Rank rank) { return static_cast<std::size_t>(rank.value) / kPage; }

  const int ranks_;
  std::vector<std::atomic<Page*>> pages_;  // make()'s release pairs with find()'s acquire
};

}  // namespace tutti

#include "schedule/simulator/simulated_links.h"

#include <algorithm>
#include <bit>

namespace tutti {
namespace {

constexpr std::size_t kSmallTable = 1024;
constexpr std::uint32_t kFirstPlaces = 2;

std::size_t home_of(std::uint64_t key, std::size_t size) {
  return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15u) >> 20) & (size - 1);
}

}  // namespace

void SimulatedLinks::reset(std::uint32_t credits) {
  most_places_ = std::bit_ceil(std::clamp(credits, kFirstPlaces, kMostPlaces));
  links_.clear();
  rings_.clear();
  if (table_.size() > kSmallTable) table_.resize(kSmallTable);  // what a large simulation left need not be cleared
  if (table_.empty()) table_.resize(kSmallTable);
  std::ranges::fill(table_, Place{});
}

std::uint32_t SimulatedLinks::find(std::int32_t from, std::int32_t to, std::uint32_t lane, bool multicast) {
  const std::uint64_t key = std::uint64_t{1} << 63 | std::uint64_t{multicast} << 62 | std::uint64_t{lane} << 56 |
                            static_cast<std::uint64_t>(from) << 28 | static_cast<std::uint64_t>(to);
  std::size_t place = home_of(key, table_.size());
  for (; table_[place].key != 0; place = (place + 1) & (table_.size() - 1)) {
    if (table_[place].key == key) return table_[place].link;
  }
  const auto link = static_cast<std::uint32_t>(links_.size());
  table_[place] = Place{key, link};
  SimulatedLink made;
  made.places = kFirstPlaces;
  made.ring = rings_.size();
  rings_.resize(rings_.size() + kFirstPlaces);
  links_.push_back(made);
  if (2 * links_.size() > table_.size()) rehash();
  return link;
}

void SimulatedLinks::rehash() {
  std::vector<Place> old(4 * table_.size());
  old.swap(table_);
  for (const Place& entry : old) {
    if (entry.key == 0) continue;
    std::size_t place = home_of(entry.key, table_.size());
    while (table_[place].key != 0) place = (place + 1) & (table_.size() - 1);
    table_[place] = entry;
  }
}

Time SimulatedLinks::free_at(std::uint32_t link, std::uint32_t credits) const {
  const SimulatedLink& l = links_[link];
  if (l.sent < credits) return 0;
  const std::uint32_t last = l.sent - credits;
  return last < l.taken ? at(l, last) : kNever;
}

/// Twice the places; so far no message has taken the place of another.
void SimulatedLinks::widen(SimulatedLink& link) {
  const std::size_t ring = rings_.size();
  rings_.resize(ring + 2 * link.places);
  std::copy_n(rings_.begin() + static_cast<std::ptrdiff_t>(link.ring), link.places,
              rings_.begin() + static_cast<std::ptrdiff_t>(ring));
  link.ring = ring;
  link.places *= 2;
}

void SimulatedLinks::claim(std::uint32_t link) {
  SimulatedLink& l = links_[link];
  if (l.sent == l.places && l.places < most_places_) widen(l);
  ++l.sent;
}

void SimulatedLinks::arrive(std::uint32_t link, Time seen) {
  SimulatedLink& l = links_[link];
  at(l, l.arrived++) = seen;
}

Time SimulatedLinks::seen_at(std::uint32_t link) const {
  const SimulatedLink& l = links_[link];
  return l.taken < l.arrived ? at(l, l.taken) : kNever;
}

void SimulatedLinks::take(std::uint32_t link, Time free) {
  SimulatedLink& l = links_[link];
  at(l, l.taken++) = free;
}

}  // namespace tutti

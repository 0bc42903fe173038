// A set of small numbers: of ranks, or of places in a process order.
#pragma once

#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/units.h"

namespace tutti {

/// The numbers are bits. Equal sets have equal words, because no last word is zero.
class NumberSet {
 public:
  static NumberSet of(const std::vector<Rank>& ranks) {
    NumberSet set;
    for (const Rank rank : ranks) set.add(rank);
    return set;
  }
  bool has(std::size_t number) const {
    return number / kBits < words_.size() && (words_[number / kBits] >> number % kBits & 1) != 0;
  }
  bool has(Rank rank) const { return has(static_cast<std::size_t>(rank.value)); }
  /// Returns whether it was not in the set.
  bool add(std::size_t number) {
    if (number / kBits >= words_.size()) words_.resize(number / kBits + 1);
    const std::uint64_t before = words_[number / kBits];
    words_[number / kBits] |= std::uint64_t{1} << number % kBits;
    return words_[number / kBits] != before;
  }
  bool add(Rank rank) { return add(static_cast<std::size_t>(rank.value)); }
  void remove(std::size_t number) {
    if (number / kBits < words_.size()) words_[number / kBits] &= ~(std::uint64_t{1} << number % kBits);
    trim();
  }
  void remove(Rank rank) { remove(static_cast<std::size_t>(rank.value)); }
  NumberSet& operator|=(const NumberSet& other) {
    if (words_.size() < other.words_.size()) words_.resize(other.words_.size());
    for (std::size_t i = 0; i < other.words_.size(); ++i) words_[i] |= other.words_[i];
    return *this;
  }
  NumberSet& operator-=(const NumberSet& other) {
    for (std::size_t i = 0; i < words_.size() && i < other.words_.size(); ++i) words_[i] &= ~other.words_[i];
    trim();
    return *this;
  }
  NumberSet& operator&=(const NumberSet& other) {
    if (words_.size() > other.words_.size()) words_.resize(other.words_.size());
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= other.words_[i];
    trim();
    return *this;
  }
  bool empty() const { return words_.empty(); }
  std::size_t size() const {
    std::size_t count = 0;
    for (const std::uint64_t word : words_) count += static_cast<std::size_t>(std::popcount(word));
    return count;
  }
  bool contains(const NumberSet& other) const {
    NumberSet rest = other;
    rest -= *this;
    return rest.empty();
  }
  bool meets(const NumberSet& other) const {
    NumberSet common = other;
    common &= *this;
    return !common.empty();
  }
  /// Calls `each` with all numbers, ascending.
  template <class Each>
  void for_each(const Each& each) const {
    for (std::size_t word = 0; word < words_.size(); ++word)
      for (std::uint64_t rest = words_[word]; rest != 0; rest &= rest - 1)
        each(word * kBits + static_cast<std::size_t>(std::countr_zero(rest)));
  }
  std::vector<Rank> ranks() const {
    std::vector<Rank> list;
    for_each([&](std::size_t number) { list.emplace_back(static_cast<std::int32_t>(number)); });
    return list;
  }
  auto operator<=>(const NumberSet&) const = default;

  /// Its bits, as they travel. Who writes them sees to it that the last word is not zero.
  std::vector<std::uint64_t>& words() { return words_; }
  const std::vector<std::uint64_t>& words() const { return words_; }

 private:
  void trim() {
    while (!words_.empty() && words_.back() == 0) words_.pop_back();
  }

  static constexpr std::size_t kBits = 64;
  std::vector<std::uint64_t> words_;
};

inline NumberSet operator|(NumberSet left, const NumberSet& right) { return left |= right; }
inline NumberSet operator-(NumberSet left, const NumberSet& right) { return left -= right; }
inline NumberSet operator&(NumberSet left, const NumberSet& right) { return left &= right; }

}  // namespace tutti

// Numbers for the parts that several members have in common: hosts or resources.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "comm/messages/member.h"

namespace tutti {

/// Gives the first part the number 0, and each one that is not equal to an earlier one the next number. Parts must stay
/// in place. They are looked up by order and not by hash, because others could send parts whose hashes are equal.
template <class Part>
class PartNumbers {
 public:
  std::uint32_t of(const Part* part) {
    if (part == last_) return last_number_;  // ranks of a host often follow one another
    const auto [known, is_new] = numbers_.try_emplace(part, static_cast<std::uint32_t>(parts_.size()));
    if (is_new) parts_.push_back(part);
    last_ = part;
    return last_number_ = known->second;
  }
  /// The parts that differ, by number.
  const std::vector<const Part*>& parts() const { return parts_; }

 private:
  struct Before {
    bool operator()(const Part* a, const Part* b) const { return *a < *b; }
  };
  std::map<const Part*, std::uint32_t, Before> numbers_;
  std::vector<const Part*> parts_;
  const Part* last_ = nullptr;
  std::uint32_t last_number_ = 0;
};

}  // namespace tutti

#include "schedule/contribution.h"

#include <algorithm>
#include <bit>

#include "core/fingerprint.h"
#include "core/units.h"

namespace tutti {
namespace {

constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15ull;

std::uint64_t tag_of(std::int32_t rank) { return mix64((static_cast<std::uint64_t>(rank) + 1) * kOdd); }

}  // namespace

void ContributionPool::reset(std::int32_t ranks, bool exact) {
  values_.clear();
  free_.clear();
  sets_.clear();
  words_ = exact ? div_up(static_cast<std::size_t>(ranks), 64) : 0;
  full_.assign(words_, ~std::uint64_t{0});
  if (exact && ranks % 64 != 0) full_.back() = (std::uint64_t{1} << (ranks % 64)) - 1;
  full_fingerprint_ = 0;
  for (std::int32_t rank = 0; rank < ranks; ++rank) full_fingerprint_ += tag_of(rank);
}

ValueId ContributionPool::allocate() {
  if (!free_.empty()) {
    const ValueId id = free_.back();
    free_.pop_back();
    values_[id] = Value{};
    std::ranges::fill(set(id), 0);
    return id;
  }
  values_.emplace_back();
  sets_.resize(sets_.size() + words_, 0);
  return static_cast<ValueId>(values_.size() - 1);
}

std::uint64_t ContributionPool::leaf_expression(std::int32_t rank, std::uint32_t chunk) {
  return mix64(tag_of(rank) ^ (std::uint64_t{chunk} + 1) * 0xd1342543de82ef95ull);
}

ValueId ContributionPool::leaf(std::int32_t rank, std::uint32_t chunk) {
  const ValueId id = allocate();
  values_[id] = Value{leaf_expression(rank, chunk), tag_of(rank), chunk, 1, rank, false};
  if (words_ != 0) set(id)[static_cast<std::size_t>(rank) / 64] |= std::uint64_t{1} << (rank % 64);
  return id;
}

Combined ContributionPool::combine(std::span<const ValueId> operands) {
  const ValueId id = allocate();
  const auto bits = set(id);
  Value result = values_[operands[0]];
  result.references = 1;
  result.complete = false;
  result.fingerprint = 0;
  result.expression = mix64(operands.size() * kOdd);
  std::int32_t lowest_before = -1;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Value& operand = values_[operands[i]];
    CombineError error = CombineError::kNone;
    if (operand.chunk != result.chunk) error = CombineError::kChunk;
    const auto other = set(operands[i]);
    for (std::size_t word = 0; word < words_; ++word) {
      if ((bits[word] & other[word]) != 0) error = CombineError::kOverlap;
      bits[word] |= other[word];
    }
    if (error == CombineError::kNone && operand.lowest <= lowest_before) error = CombineError::kOrder;
    if (error != CombineError::kNone) {
      free_.push_back(id);
      return Combined{kNoValue, error, i};
    }
    lowest_before = operand.lowest;
    result.fingerprint += operand.fingerprint;
    result.expression = mix64(result.expression ^ operand.expression);
  }
  values_[id] = result;
  return Combined{id, CombineError::kNone, 0};
}

ValueId ContributionPool::join(ValueId a, ValueId b) {
  const ValueId id = allocate();
  values_[id] = Value{0, 0, 0, 1, std::min(values_[a].lowest, values_[b].lowest), false};
  for (std::size_t word = 0; word < words_; ++word) set(id)[word] = set(a)[word] | set(b)[word];
  return id;
}

void ContributionPool::release(ValueId id) {
  if (--values_[id].references == 0) free_.push_back(id);
}

bool ContributionPool::is_full(ValueId id) const {
  if (words_ == 0) return values_[id].fingerprint == full_fingerprint_;
  return std::ranges::equal(set(id), full_);
}

std::int32_t ContributionPool::missing_rank(ValueId id) const {
  for (std::size_t word = 0; word < words_; ++word) {
    const std::uint64_t missing = full_[word] & ~set(id)[word];
    if (missing != 0) return static_cast<std::int32_t>(word * 64 + static_cast<std::size_t>(std::countr_zero(missing)));
  }
  return -1;
}

}  // namespace tutti

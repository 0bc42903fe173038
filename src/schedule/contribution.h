// Contributions: the values of the prover. A value is not a number but what it is made of: whose inputs, of which
// chunk, added in which order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tutti {

using ValueId = std::uint32_t;
inline constexpr ValueId kNoValue = ~ValueId{0};

struct Value {
  std::uint64_t expression = 0;   ///< hash of the ordered expression tree; a reduction of k operands is one node
  std::uint64_t fingerprint = 0;  ///< sum of the contributing ranks' random tags mod 2^64
  std::uint32_t chunk = 0;        ///< the chunk of the result that it contributes to
  std::uint32_t references = 0;
  std::int32_t lowest = 0;  ///< the lowest contributing rank
  bool complete = false;    ///< result of a step marked kComplete
};

enum class CombineError : std::uint8_t { kNone, kOverlap, kChunk, kOrder };

/// The result of a reduction, or why there is none.
struct Combined {
  ValueId value = kNoValue;
  CombineError error = CombineError::kNone;
  std::size_t operand = 0;  ///< the operand that does not fit those before it
};

/// All values of one proof, counted by references, so that memory holds those that are alive. Exact: a value carries
/// the set of its contributors as bits. Otherwise only the fingerprint: an addition of tags in which a doubled or a
/// missing contributor gives a wrong sum but for a chance of 2^-64. One thread.
class ContributionPool {
 public:
  /// Forgets all values; keeps memory.
  void reset(std::int32_t ranks, bool exact);

  /// Rank `rank`'s own input of `chunk`. The caller holds the one reference, here and below.
  ValueId leaf(std::int32_t rank, std::uint32_t chunk);
  /// The reduction of the operands in this order. They must be of one chunk, disjoint (checked if exact), and ascend in
  /// their lowest ranks. Operands keep their references.
  Combined combine(std::span<const ValueId> operands);
  /// Union, for tokens: overlaps are fine. Needs exact.
  ValueId join(ValueId a, ValueId b);

  void retain(ValueId id) { ++values_[id].references; }
  void release(ValueId id);

  /// Whether all ranks have contributed.
  bool is_full(ValueId id) const;
  /// What leaf(rank, chunk) would carry as its expression.
  static std::uint64_t leaf_expression(std::int32_t rank, std::uint32_t chunk);
  /// A rank that has not contributed; only if exact and not full.
  std::int32_t missing_rank(ValueId id) const;

  const Value& operator[](ValueId id) const { return values_[id]; }
  void mark_complete(ValueId id) { values_[id].complete = true; }

 private:
  ValueId allocate();
  std::span<std::uint64_t> set(ValueId id) { return {sets_.data() + std::size_t{id} * words_, words_}; }
  std::span<const std::uint64_t> set(ValueId id) const { return {sets_.data() + std::size_t{id} * words_, words_}; }

  std::vector<Value> values_;
  std::vector<ValueId> free_;
  std::vector<std::uint64_t> sets_;  ///< words_ a value
  std::vector<std::uint64_t> full_;  ///< the set of all ranks
  std::uint64_t full_fingerprint_ = 0;
  std::size_t words_ = 0;
};

}  // namespace tutti

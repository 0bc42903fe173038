// Checks whether a call's result is right on this rank: fills what it reads, marks what it writes, and looks at both.
#pragma once

#include <cstddef>

#include "call.h"
#include "data.h"

namespace tutti::perf {

class Check {
 public:
  /// Borrows `row` and `call`. For `exact_in` see Reduction.
  Check(const Row& row, const Call& call, tuttiDataType_t exact_in, int rank, int ranks);

  /// Fills what the call reads and poisons what it writes.
  void prepare(const Buffers& buffers, bool in_place) const;
  /// Counts elements that are not as they must be: in the result, in input that must not change, and in memory that the
  /// call has no business with.
  std::size_t count_wrong(const Buffers& buffers, bool in_place) const;

 private:
  /// Counts wrong elements at `at`, where elements [first, first + count) of what rank `from` sent must be.
  std::size_t wrong_from(int from, const std::byte* at, std::size_t first, std::size_t count) const;
  std::size_t wrong_reduction(const std::byte* recv, bool in_place) const;
  std::size_t wrong_blocks(const std::byte* recv) const;
  std::size_t wrong_pairs(const std::byte* recv) const;
  std::size_t wrong_result(const std::byte* recv, bool in_place) const;

  const Row& row_;
  const Call& call_;
  int rank_;
  int ranks_;
  Pattern input_, result_;
};

}  // namespace tutti::perf

// What the operations share: checks of their arguments, groups of calls.
#pragma once

#include "process_group.h"

// Since torch 2.8 a call says whether somebody waits for it at once.
#if TUTTI_TORCH >= 208
#define TUTTI_BLOCKING(options) (!(options).asyncOp)
#else
#define TUTTI_BLOCKING(options) false
#endif

namespace tutti_torch {

using Use = Operand::Use;
using c10d::OpType;

inline void check_count(std::int64_t have, std::int64_t want, const char* operation, const char* what) {
  if (have != want) {
    C10_THROW_ERROR(ValueError,
                    c10::str("tutti: ", operation, ": ", what, " has ", have, " elements where ", want, " are needed"));
  }
}

inline bool of_one_size(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.numel() != tensors.front().numel()) return false;
  }
  return true;
}

/// Elements of the blocks of an all-to-all or an uneven gather, and where they begin.
struct Blocks {
  std::vector<std::size_t> counts;
  std::vector<std::size_t> starts;

  Blocks(const Operand& operand, const Element& element) {
    for (std::size_t i = 0; i < operand.size(); ++i) add(operand.count(element, i));
  }
  /// `splits` rows of `row` elements; none: `ranks` equal blocks of `rows` rows in all.
  Blocks(const std::vector<std::int64_t>& splits, std::size_t row, std::size_t rows, int ranks) {
    for (const std::int64_t split : splits) add(static_cast<std::size_t>(split) * row);
    if (splits.empty()) {
      for (int i = 0; i < ranks; ++i) add(rows / static_cast<std::size_t>(ranks) * row);
    }
  }

 private:
  void add(std::size_t count) {
    starts.push_back(starts.empty() ? 0 : starts.back() + counts.back());
    counts.push_back(count);
  }
};

/// Calls of one group, which Tutti packs where that pays. `call(i, comm)` for i below `count`.
template <class Calls>
void in_group(Endpoint& endpoint, const char* operation, std::size_t count, const Calls& call) {
  endpoint.run(operation, [&](tuttiComm_t comm) {
    tuttiResult_t result = tuttiGroupStart();
    if (result != tuttiSuccess) return result;
    for (std::size_t i = 0; i < count && result == tuttiSuccess; ++i) result = call(i, comm);
    const tuttiResult_t ended = tuttiGroupEnd();
    return result != tuttiSuccess ? result : ended;
  });
}

}  // namespace tutti_torch

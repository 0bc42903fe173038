// Small all-reduces of a group that run as one exchange. Each part stays an operation of its own, in its own place. The
// first one runs the exchange, and the others then only take their results.
//
// Packing reads all inputs when the first part runs. If an input may not be there by then on some rank (because it is
// the output of an earlier part, comes later in a stream, or is device memory), that rank objects in one more element
// of the exchange. Then every part runs alone, on all ranks. So what only one rank knows never makes ranks disagree
// about what is sent.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "comm/call/arguments.h"

namespace tutti {

/// Shared by the operations of the parts, which run one after the other.
class PackedReduction {
 public:
  /// Whether two all-reduces can be packed, because they have the same type and the same built-in operation. All ranks
  /// get the same answer.
  static bool fit(const CallArguments& a, const CallArguments& b);

  /// Adds a part and returns its number. `input_comes_later`: this rank may not have the part's input when the first
  /// part runs.
  std::size_t add(const CallArguments& part, bool input_comes_later);
  Bytes bytes() const;

  /// Copies the inputs and returns the call that exchanges them, in memory of this object.
  CallArguments exchange();
  /// Called after the exchange. Returns whether its result counts; if not, all parts run alone.
  bool settle();
  bool settled() const { return settled_; }
  /// Copies the result of a part to its output.
  void take(std::size_t part) const;

 private:
  bool reads_what_is_written() const;
  std::byte* objection() const;

  std::vector<CallArguments> parts_;
  bool objects_ = false;
  bool settled_ = false;
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace tutti

// Small all-reduces of a group that run as one exchange. Each part stays an operation of its own, in its own place: the
// first one runs the exchange, the others then only take their results.
//
// Packing reads all inputs when the first part runs. A rank where an input may not be there by then (it is the output
// of an earlier part, comes later in a stream, or is device memory) objects in one more element of the exchange; then
// every part runs alone, on all ranks. So what only one rank knows never makes ranks disagree about what is sent.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "comm/call/arguments.h"

namespace tutti {

/// Shared by the operations of the parts, which run one after the other.
class PackedReduction {
 public:
  /// Whether two all-reduces can be packed: one type, one built-in operation. The same on all ranks.
  static bool fit(const CallArguments& a, const CallArguments& b);

  /// Returns the part's number. `input_comes_later`: this rank may not have the part's input when the first one runs.
  std::size_t add(const CallArguments& part, bool input_comes_later);
  Bytes bytes() const;

  /// Copies the inputs; the call that exchanges them. The memory is this object's.
  CallArguments exchange();
  /// After the exchange: whether its result counts; else all parts run alone.
  bool settle();
  bool settled() const { return settled_; }
  /// The result of a part to its output.
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

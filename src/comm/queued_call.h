// A call that runs later than it was made: in a group or on a stream. It owns what it needs except the buffers.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "comm/arguments.h"
#include "executor/executor.h"

namespace tutti {

/// A collective, several all-reduces packed into one, or a batch of sends and receives (an empty batch only waits for
/// its turn). A movable value.
class QueuedCall {
 public:
  /// Sends and receives.
  explicit QueuedCall(std::vector<Transfer> transfers = {}) : transfers_(std::move(transfers)) {}
  explicit QueuedCall(KeptArguments arguments) : arguments_(std::move(arguments)), collective_(true) {}

  bool collective() const { return collective_; }
  const CallArguments& arguments() const { return arguments_.get(); }
  std::span<Transfer> transfers() { return transfers_; }
  void add(const Transfer& transfer) { transfers_.push_back(transfer); }

  /// Whether `other` can be packed with this one: all-reduces of one type and built-in operation. The same on all
  /// ranks.
  bool combines_with(const QueuedCall& other) const;
  Bytes bytes() const;
  /// Takes another all-reduce in: the two run as one on memory of this call's.
  void combine(QueuedCall other);
  /// Before each run.
  void pack();
  /// After each run. True: not over yet, run it again. A packed call carries an element in which a rank objects when
  /// one of its inputs is the output of an earlier part: then the parts run alone after all, on all ranks.
  bool unpack();

 private:
  bool objects() const;
  bool was_objected() const;
  std::byte* object_element() const;

  KeptArguments arguments_;
  bool collective_ = false;
  std::vector<Transfer> transfers_;
  std::vector<KeptArguments> parts_;  // of a packed call, in call order
  std::size_t next_ = 0;              // part to run alone
  bool alone_ = false;                // the parts run alone
  std::unique_ptr<std::byte[]> packed_;
};

}  // namespace tutti

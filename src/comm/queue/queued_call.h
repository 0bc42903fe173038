// A queued call runs later than it was made, in a group or on a stream. It owns what it needs except the buffers.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "comm/call/arguments.h"
#include "comm/queue/packed_reduction.h"
#include "executor/executor.h"

namespace tutti {

/// A collective, alone or a part of several that are packed, or a batch of sends and receives. A movable value.
class QueuedCall {
 public:
  /// For sends and receives.
  explicit QueuedCall(std::vector<Transfer> transfers = {}) : transfers_(std::move(transfers)) {}
  explicit QueuedCall(OwnedArguments arguments) : arguments_(std::move(arguments)), collective_(true) {}

  bool collective() const { return collective_; }
  /// Makes it a staged call of its stream, also if it has no buffers.
  void stage() { arguments_.stage(); }
  /// Sets, for a call in which this rank moves nothing, whether the other ranks run it on device memory.
  void place(bool on_device) { arguments_.place(on_device); }
  const CallArguments& arguments() const { return exchanging_ ? exchange_ : arguments_.get(); }
  std::span<Transfer> transfers() { return transfers_; }
  void add(const Transfer& transfer) { transfers_.push_back(transfer); }
  Bytes bytes() const;

  /// Packs this call with those of `first`, see PackedReduction.
  void follow(QueuedCall* first, bool input_comes_later);
  Bytes packed_bytes() const { return pack_ == nullptr ? bytes() : pack_->bytes(); }

  /// Called before it runs. Returns false if there is nothing to run, because the result is there.
  bool prepare();
  /// Called after it ran. Returns true if it has to run again, alone.
  bool again();

 private:
  OwnedArguments arguments_;
  bool collective_ = false;
  std::vector<Transfer> transfers_;
  std::shared_ptr<PackedReduction> pack_;
  std::size_t part_ = 0;
  bool exchanging_ = false;  // the exchange of the pack is what runs
  CallArguments exchange_;
};

}  // namespace tutti

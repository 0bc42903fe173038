// What was sent by reference: a transport may read a message straight from the sender's input or output until its
// receiver has consumed it. Watches that nobody overwrites such memory before, whatever the order of execution.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti {

/// Vector clocks (Fidge 1988, Mattern 1989) of all strands: a write is safe where the consumption of what was sent from
/// there happens before it, by a chain of messages. Credits are no part of such chains: a sender may have more of them
/// than the proof. Strands are numbered by the caller, cells are those of SymbolicMemory. One thread.
class ReferenceWatch {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  void reset(std::size_t strands, std::size_t cells);

  /// A strand's message to `readers` readers. Returns the message's number for refer() and received().
  std::uint32_t sent(std::uint32_t strand, std::uint32_t readers);
  /// The message, which may be read from this cell. Call after the step's own store.
  void refer(std::uint32_t message, std::size_t cell);
  /// One reader's receipt, which is also its consumption.
  void received(std::uint32_t strand, std::uint32_t message);
  /// Whether `strand` may overwrite the cell now.
  bool may_write(std::uint32_t strand, std::size_t cell) const;
  /// A step of the strand ends: what it received and sent happens before the next one.
  void step_done(std::uint32_t strand) { ++steps_[strand]; }

 private:
  struct Sent {
    std::uint32_t strand;
    std::uint32_t step;
    std::uint32_t snapshot;  ///< the sender's clock, or kNone while it had received nothing
    std::uint32_t unread;    ///< readers that have not consumed it
    std::uint32_t receipts;  ///< list of Receipt
  };
  struct Receipt {
    std::uint32_t strand;
    std::uint32_t step;
    std::uint32_t next;
  };
  struct Reference {
    std::uint32_t message;
    std::uint32_t next;
  };

  std::uint32_t snapshot(std::uint32_t strand);
  void release(std::uint32_t snapshot);
  std::uint32_t* clock(std::uint32_t strand) { return clocks_.data() + strand * strands_; }

  std::size_t strands_ = 0;
  std::vector<std::uint32_t> steps_;      ///< a strand: the number of its current step
  std::vector<std::uint32_t> clocks_;     ///< strands_ a strand: the steps of others that it knows to be done
  std::vector<std::uint32_t> current_;    ///< a strand: a snapshot of its clock as it is now, or kNone
  std::vector<bool> knows_;               ///< a strand: whether it has received anything
  std::vector<std::uint32_t> snapshots_;  ///< strands_ a snapshot
  std::vector<std::uint32_t> holders_;    ///< a snapshot
  std::vector<std::uint32_t> free_;       ///< snapshots without holders
  std::vector<Sent> messages_;
  std::vector<Receipt> receipts_;
  std::vector<Reference> references_;
  std::vector<std::uint32_t> referring_;  ///< a cell: list of Reference
};

}  // namespace tutti

// One-sided windows: memory of each rank that the others put into without its doing.
#pragma once

#include "process_group.h"

#ifdef C10D_BACKEND_HAS_WINDOW
namespace tutti_torch {

/// A window of a ProcessGroupTutti, made by all its ranks. It is for host memory. Puts, signals and sends of one rank
/// to another arrive in their order, so whoever has waited for a signal finds the puts that came before it. A put that
/// is over has left its tensor; only a signal tells that it has arrived. wait_signal() takes one signal of that rank,
/// also one that came earlier. Any thread may put and signal.
class TuttiWindow final : public c10d::Window {
 public:
  /// `number` is equal on all ranks, and that of no other window of these connections.
  TuttiWindow(c10::intrusive_ptr<ProcessGroupTutti> group, std::shared_ptr<Connections> connections,
              std::int64_t number);
  ~TuttiWindow() override;

  /// By all ranks, whose tensors may differ in size and dtype. Blocks until all have come.
  void tensor_register(const at::Tensor& tensor, bool owning) override;
  /// By all ranks. Blocks until all have come, and all puts and signals into the window have arrived.
  void tensor_deregister() override;
  c10::intrusive_ptr<c10d::Work> put(const at::Tensor& tensor, std::int64_t rank, std::int64_t offset, bool async,
                                     const c10d::PutOptions& options) override;
  c10::intrusive_ptr<c10d::Work> signal(std::int64_t rank, bool async, const c10d::SignalOptions& options) override;
  c10::intrusive_ptr<c10d::Work> wait_signal(std::int64_t rank, bool async,
                                             const c10d::WaitSignalOptions& options) override;
  /// The registered tensor itself for this rank. The others' memory is not mapped: raises NotImplementedError.
  at::Tensor map_remote_tensor(std::int64_t rank) override;
  c10d::WindowAttr get_attr(std::int64_t rank) override;

 private:
  /// What a rank has registered.
  struct Extent {
    std::int64_t elements = 0;
    std::int64_t dtype = 0;
  };
  void check_registered(const char* operation) const;
  c10::intrusive_ptr<c10d::Work> send_empty(std::int64_t rank, bool async, Tag tag, const char* operation,
                                            std::chrono::milliseconds timeout);
  c10::intrusive_ptr<c10d::Work> receive_empty(std::int64_t rank, Tag tag, std::chrono::milliseconds timeout);

  const c10::intrusive_ptr<ProcessGroupTutti> group_;
  const std::shared_ptr<Connections> connections_;
  const Tag tag_;  // of the memory and the signals; the fences have the next one
  at::Tensor tensor_;
  bool is_registered_ = false;
  bool is_owning_ = false;
  std::vector<Extent> extents_;  // by rank
};

}  // namespace tutti_torch
#endif

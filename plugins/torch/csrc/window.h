// One-sided windows: memory of each rank that the others put into without its doing.
#pragma once

#include "process_group.h"

#ifdef C10D_BACKEND_HAS_WINDOW
namespace tutti_torch {

/// A window of a ProcessGroupTutti, for host memory. Puts, signals and sends of one rank to another arrive in their
/// order, so whoever has waited for a signal finds the puts that came before it. A put that is over has left its
/// tensor; a signal, or tensor_deregister(), tells that it has arrived. wait_signal() takes one signal of that rank,
/// also one that came earlier. Any thread may call. A window serves as long as the members of its group stay the same.
///
/// What is registered is kept until it is deregistered by all, or the group ends, whatever becomes of the window.
class TuttiWindow final : public c10d::Window {
 public:
  TuttiWindow(c10::intrusive_ptr<ProcessGroupTutti> group, std::shared_ptr<Connections> connections);

  /// All ranks call this, and make and register their windows in the same order. The tensors may differ in size and
  /// dtype; their storage must not be resized. Blocks until all have come. If one rank cannot register, all raise
  /// ValueError.
  void tensor_register(const at::Tensor& tensor, bool owning) override;
  /// All ranks call this. Blocks until all have come, and all puts have arrived. Signals that nobody has waited for are
  /// dropped. If it fails, this rank's tensor is deregistered all the same.
  void tensor_deregister() override;
  c10::intrusive_ptr<c10d::Work> put(const at::Tensor& tensor, std::int64_t rank, std::int64_t offset, bool async,
                                     const c10d::PutOptions& options) override;
  c10::intrusive_ptr<c10d::Work> signal(std::int64_t rank, bool async, const c10d::SignalOptions& options) override;
  c10::intrusive_ptr<c10d::Work> wait_signal(std::int64_t rank, bool async,
                                             const c10d::WaitSignalOptions& options) override;
  /// The registered memory of this rank. The others' is not mapped: raises NotImplementedError.
  at::Tensor map_remote_tensor(std::int64_t rank) override;
  c10d::WindowAttr get_attr(std::int64_t rank) override;

 private:
  /// A rank tells the others this when it registers.
  struct Offer {
    std::int64_t window;  // the number of the window
    std::int64_t number;  // of the rank's registrations
    std::int64_t elements;
    std::int64_t dtype;
    std::int64_t fault;  // a Fault
  };
  enum Fault : std::int64_t { kNone, kOccupied, kUnfit };
  /// What all ranks have registered together.
  struct Registration {
    struct Extent {
      std::int64_t elements;
      at::ScalarType dtype;
    };
    Tag tag;                      // of the memory and the signals; the fences have the next one
    at::Tensor tensor;            // of this rank
    std::vector<Extent> extents;  // by rank
  };

  void check_members(const char* operation) const;
  void check_rank(std::int64_t rank, const char* operation) const;
  const Registration& registration(const char* operation) const;
  std::vector<Offer> gather(const Offer& mine);
  void check_offers(const std::vector<Offer>& offers) const;
  WorkPointer submit(std::int64_t rank, const char* title, std::chrono::milliseconds timeout,
                     std::vector<at::Tensor> inputs, std::function<void(PostOffice&, TuttiWork&)> body);
  WorkPointer receive_empty(std::int64_t rank, Tag tag, const char* title, std::chrono::milliseconds timeout);
  void pass_fences(Tag tag);

  const c10::intrusive_ptr<ProcessGroupTutti> group_;
  const std::shared_ptr<Connections> connections_;
  const std::int64_t number_;
  const int rank_;
  const int size_;
  mutable std::mutex mutex_;
  std::optional<Registration> registration_;
};

}  // namespace tutti_torch
#endif

// torch.distributed's backend "tutti".
#pragma once

#include <mutex>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "abort_hooks.h"
#include "connections.h"
#include "operand.h"
#include "reconfiguration.h"

namespace tutti_torch {

/// Any thread may call. Collectives are carried out one at a time in the order of the calls, which is the same on all
/// ranks: a call that blocks on the calling thread, an asynchronous one on the group's own thread or on the one that
/// waits for it. Those of tensors on a GPU are put on its streams by the calling thread, which waits for what was
/// called before only until that has its place. Sends are in order among themselves, receives are open all at once.
/// Errors of arguments are raised by the call, others by wait() and the future; except for wrong arguments, an error is
/// final for the group, until reconfigure() gives it members anew.
class ProcessGroupTutti : public c10d::Backend {
 public:
  struct Options : c10d::Backend::Options {
    explicit Options(std::chrono::milliseconds limit = kBackendDefaultTimeout)
        : c10d::Backend::Options("tutti", limit) {}
    c10::intrusive_ptr<c10d::Backend::Options> clone() const { return c10::make_intrusive<Options>(*this); }
    /// The group's, for logs.
    std::string label = "torch";
    /// What float32 travels as in reductions; tuttiDataTypeMax: TUTTI_WIRE_TYPE's value.
    tuttiDataType_t wire_type = tuttiDataTypeMax;
    /// 0, 1, or TUTTI_UNDEF_INT: TUTTI_DETERMINISTIC's value.
    int deterministic = TUTTI_UNDEF_INT;
    /// The backend that the program asked for. Under Gloo's name some ranks may make the group of Gloo.
    std::string stands_for = "tutti";
  };
  using WorkResult = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using Lists = std::vector<Tensors>;

  /// Blocks until all ranks are there; with options->enable_reconfigure, where torch has that, the first reconfigure()
  /// does.
  ProcessGroupTutti(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                    const c10::intrusive_ptr<Options>& options);
  ~ProcessGroupTutti() override;

  const std::string getBackendName() const override { return "tutti"; }

  WorkResult broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkResult allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkResult allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkResult allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkResult reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkResult allgather(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkResult _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkResult allgather_coalesced(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkResult allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                             const c10d::AllgatherOptions& options) override;
  WorkResult gather(Lists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  // These two forward to each other in the versions of torch that have them; not marked override, as others do not.
  WorkResult gather_single(at::Tensor& output, at::Tensor& input, const c10d::GatherOptions& options);
  WorkResult gather_into_tensor(at::Tensor& output, at::Tensor& input, const c10d::GatherOptions& options);
  WorkResult scatter(Tensors& outputs, Lists& inputs, const c10d::ScatterOptions& options) override;
  WorkResult reduce_scatter(Tensors& outputs, Lists& inputs, const c10d::ReduceScatterOptions& options) override;
  WorkResult _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                  const c10d::ReduceScatterOptions& options) override;
  WorkResult reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                             const c10d::ReduceScatterOptions& options) override;
  WorkResult alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_splits,
                           std::vector<std::int64_t>& input_splits, const c10d::AllToAllOptions& options) override;
  WorkResult alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  WorkResult send(Tensors& tensors, int peer, int tag) override;
  WorkResult recv(Tensors& tensors, int peer, int tag) override;
  WorkResult recvAnysource(Tensors& tensors, int tag) override;
  WorkResult barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  void startCoalescing() override;
  WorkResult endCoalescing() override;
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return sequence_; }
  // Virtual in some of the versions of torch that this is compiled against, so none is marked override.
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions();
  void setTimeout(std::chrono::milliseconds timeout);
  void waitForPendingWorks();
  /// Makes the communicator for the device, which its first call would make. All ranks do it.
  void eagerConnectSingleDevice(at::Device device);
  bool supportsAbortHooks() const;
#if TUTTI_TORCH >= 208
  c10d::ErrorType getError();
#endif
#ifdef C10D_BACKEND_HAS_HOOKS
  /// Hooks run before abort(), and before an error that is final for the group is reported.
  void registerAbortHook(std::int64_t number, c10d::AbortHook hook) override { hooks_->add(number, std::move(hook)); }
  void unregisterAbortHook(std::int64_t number) override { hooks_->remove(number); }
#endif
#ifdef C10D_BACKEND_HAS_RECONFIGURE
  bool supportsReconfigure() const override { return true; }
  c10d::ReconfigureHandle get_reconfigure_handle() const override { return handle_; }
  /// Blocks until all new members are there. Then, and only then, what is under way among the old ones ends with an
  /// error. If it fails it has changed nothing, and may be called again with another uuid. Not beside other calls.
  WorkResult reconfigure(const c10d::ReconfigureOptions& options) override;
#endif
#ifdef C10D_BACKEND_HAS_HOOKS
  bool supportsSplitting() const override { return true; }
  /// A group of these ranks, in this order, whose options are `options`; nullptr on a rank that is not among them. Only
  /// they meet, in `store`. Blocks until all are there.
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<c10d::Backend::Options>& options) override;
  /// A group of all who call this with the same store. Blocks until all are there.
  c10::intrusive_ptr<c10d::Backend> merge(const c10::intrusive_ptr<c10d::Store>& store,
                                          const c10::intrusive_ptr<c10d::Backend::Options>& options, const int& rank,
                                          const int& size) override;
#endif
#ifdef C10D_BACKEND_HAS_WINDOW
  bool supportsWindow() const override { return true; }
  /// Called by all ranks. If there is a tensor, it is registered in the window, and the call waits for all ranks.
  c10::intrusive_ptr<c10d::Window> new_window(const std::optional<at::Tensor>& tensor) override;
#endif
  /// Ends what is under way with an error; the peers' calls end with an error too. From any thread.
  void abort();
  /// Carries out what is queued, then says goodbye without waiting for the peers to do so.
  void shutdown();

  /// A sum (or average, ...) of float32 that travels as `wire`, see tuttiAllReduceWire. Blocks.
  void allreduce_wire(const at::Tensor& tensor, const c10d::ReduceOp& op, at::ScalarType wire);
  /// What tuttiCommGetInfo says of the collectives' communicator.
  std::string info(const std::string& key);

 private:
  friend class TuttiWindow;
  using Call = std::function<void(Endpoint&, std::vector<Operand>&)>;
  struct Launch {
    c10d::OpType type;
    const char* title;  // "tutti:" and the operation's name
    std::chrono::milliseconds timeout;
    bool blocking;
    bool pairs = false;  // operands 2i and 2i + 1 belong together, else all do: those are of one type
  };

  WorkResult launch(const Launch& launch, std::vector<Operand> operands, Call call);
  WorkResult launch(const Launch& launch, Tensors inputs, Tensors outputs, std::function<void(Endpoint&)> body);
  WorkResult put_on_stream(const Launch& kind, const c10::Device& device, Tensors inputs, Tensors outputs,
                           std::vector<Operand> operands, Call call);
  WorkResult receive(Tensors& tensors, int peer_or_any, int tag);
  WorkPointer make_work(const Launch& launch, Tensors inputs, Tensors outputs, std::shared_ptr<Carrier> carrier);
  JoinRequest join_request() const;
#ifdef C10D_BACKEND_HAS_HOOKS
  c10::intrusive_ptr<Options> options_for(const c10::intrusive_ptr<c10d::Backend::Options>& asked) const;
#endif
  std::shared_ptr<Connections> connections_or_none();
  std::shared_ptr<Connections> connections();  // raises if there are none
  WorkResult track(const WorkPointer& work);
  std::chrono::milliseconds limit(std::chrono::milliseconds asked) const;
  const at::Tensor& only(const Tensors& tensors, const char* operation) const;
  void check_list(const Tensors& list, const char* operation) const;
  void check_root(std::int64_t root, const char* operation) const;

  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<Options> options_;  // its own: the program's may serve several groups
  const std::string handle_;
  const std::shared_ptr<AbortHooks> hooks_;
  std::mutex connections_mutex_;
  std::shared_ptr<Connections> connections_;  // works under way hold what they need of it
  const char* why_none_;                      // while there are no connections
  std::vector<std::string> members_;          // handles, since the last reconfigure()
  std::atomic<std::uint64_t> sequence_{0};
  std::mutex coalescing_mutex_;
  std::atomic<bool> coalescing_{false};  // pairs with itself: calls between start and end are not blocking
  std::vector<WorkPointer> coalesced_;
};

}  // namespace tutti_torch

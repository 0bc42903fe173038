// The fast path of small calls: the two steps of the one-shot schedule (send to all; receive from all and reduce)
// without the interpreter around them. If it has to wait, the interpreter goes on from there.
#include "executor/cpu_executor.h"
#include "transport/inproc.h"
#include "transport/mixed/mixed.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"

namespace tutti {

template <Endpoint E>
Status CpuExecutor<E>::run_one_shot(const Launch& launch, WaitMonitor& monitor) {
  const Bytes bytes{launch.count.value * launch.element.value};
  const Route all{kNoRank, true, 0};
  std::byte* const slot = endpoint_->send_claim(all, bytes);
  if (slot == nullptr) [[unlikely]] {
    start(launch);
    return wait(monitor);
  }
  if (bytes.value != 0) copy_into_slot(slot, nullptr, launch.input, bytes, false, work_.stores_to_all());
  endpoint_->send_commit(all, bytes, launch.fingerprint);
  ++progress_;
  if (!all_arrived(launch, bytes)) [[unlikely]] {
    start(launch);
    lanes_[0].step = 1;
    return wait(monitor);
  }
  if (bytes.value != 0) {
    one_shot_sources_[static_cast<std::size_t>(rank_)] = launch.input;
    ReduceArgs args;
    args.sources = one_shot_sources_.data();
    args.source_count = ranks_;
    args.destination = launch.output;
    args.count = launch.count.value;
    args.divisor = launch.divisor;
    args.order = launch.tree_order ? ReduceOrder::kTree : ReduceOrder::kLeft;
    args.user = launch.user;
    work_.kernel(launch)(args);
  }
  for (int peer = 0; peer < ranks_; ++peer)
    if (peer != rank_) endpoint_->recv_release(Route{Rank{peer}, true, 0}, bytes);
  ++progress_;
  if constexpr (kNetwork) {
    if (!settled()) [[unlikely]] {
      start(launch);
      lanes_[0].tile = tiles_;
      return wait(monitor);
    }
  }
  return {};
}

/// Polls for the messages of all peers for as long as the first rung of the ladder lasts.
template <Endpoint E>
bool CpuExecutor<E>::all_arrived(const Launch& launch, Bytes bytes) {
  std::uint32_t spins = 0;
  poll_delay_.pass();
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer == rank_) continue;
    for (;;) {
      const Peek peek = endpoint_->recv_peek(Route{Rank{peer}, true, 0}, bytes, launch.fingerprint);
      one_shot_sources_[static_cast<std::size_t>(peer)] = peek.data;
      if (peek.state == PeekState::kReady) [[likely]]
        break;
      if (peek.state == PeekState::kMismatch || ++spins > policy_.bare_spins) return false;
      poll_delay_.pass_between();
    }
  }
  poll_delay_.learn(spins);
  return true;
}

template Status CpuExecutor<ShmEndpoint>::run_one_shot(const Launch&, WaitMonitor&);
template Status CpuExecutor<InprocEndpoint>::run_one_shot(const Launch&, WaitMonitor&);
template Status CpuExecutor<TcpEndpoint>::run_one_shot(const Launch&, WaitMonitor&);
template Status CpuExecutor<MixedEndpoint>::run_one_shot(const Launch&, WaitMonitor&);

}  // namespace tutti

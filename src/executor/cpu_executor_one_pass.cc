// The fast path of small calls, whose program runs once over whole blocks: the steps without the interpreter around
// them. If one has to wait for long, the interpreter goes on from there.
#include "executor/cpu_executor.h"
#include "transport/inproc.h"
#include "transport/mixed/mixed.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"

namespace tutti {

/// Steps that may run at any time run before the first one that receives, while its message is under way.
template <Endpoint E>
Status CpuExecutor<E>::run_one_pass(const Launch& launch, WaitMonitor& monitor) {
  const Schedule& schedule = *launch.schedule;
  const std::size_t ordered = schedule.steps.size() - schedule.asides_per_lane;
  lanes_[0].make_room(schedule.largest_set);
  std::size_t aside = ordered;
  const auto run_asides = [&] {
    for (; aside < schedule.steps.size(); ++aside) run_whole_step(launch, schedule.steps[aside], nullptr);
  };
  const auto interpret_from = [&](std::size_t i) {
    start(launch);
    LaneState& lane = lanes_[0];
    lane.step = static_cast<std::uint32_t>(i);
    lane.asides = aside - ordered;
    if (i == ordered) lane.tile = tiles_;
    return wait(monitor);
  };
  for (std::size_t i = 0; i < ordered; ++i) {
    const Step& step = schedule.steps[i];
    if (step.has(kRecv)) run_asides();
    PollDelay* const sent = i != 0 && schedule.steps[i - 1].has(kSend) ? &poll_delay_ : nullptr;
    if (!run_whole_step(launch, step, i == 0 ? &first_poll_delay_ : sent)) [[unlikely]]
      return interpret_from(i);
    ++progress_;
  }
  run_asides();
  if constexpr (kNetwork)
    if (!settled()) [[unlikely]]
      return interpret_from(ordered);
  return {};
}

/// Returns false, and does nothing, if the step's messages do not come soon, or there is no room for the one it sends.
/// `delay` is that of the first look, or nullptr.
template <Endpoint E>
bool CpuExecutor<E>::run_whole_step(const Launch& launch, const Step& step, PollDelay* delay) {
  const Bytes bytes{launch.count.value * launch.element.value};
  StepRange range{.count = launch.count};
  range.own = (step.src_buffer == BufferId::kOutput ? launch.output : launch.input) + step.src_chunk * bytes.value;
  if (step.has(kStore)) range.stored = launch.output + step.dst_chunk * bytes.value;
  const void* arrived = nullptr;
  const bool from_one = step.recv_from == PeerSet::kOne || ranks_ == 2;
  std::byte* const landing = from_one && lands(launch, step, range.own, range.stored) ? range.stored : nullptr;
  if (step.has(kRecv) && !find_messages(launch, step, delay, landing, &arrived)) [[unlikely]]
    return false;
  range.arrived = static_cast<const std::byte*>(arrived);
  const Route to{Rank{step.send_peer}, step.send_to == PeerSet::kAll, 0};
  if (step.has(kSend)) {
    range.slot = endpoint_->send_claim(to, bytes);
    if (range.slot == nullptr) [[unlikely]]
      return false;
  }
  if (bytes.value != 0) work_.run_range(launch, lanes_[0], step, range, work_.stores(step));
  if (step.has(kSend)) endpoint_->send_commit(to, bytes, launch.fingerprint);
  if (step.has(kRecv)) release(launch, step, bytes);
  return true;
}

/// Looks for the step's messages for as long as the first rung of the ladder lasts. Returns whether all are there:
/// `arrived` is then that of one rank, and those of all are the lane's sources.
template <Endpoint E>
bool CpuExecutor<E>::find_messages(const Launch& launch, const Step& step, PollDelay* delay, std::byte* landing,
                                   const void** arrived) {
  const Bytes bytes{launch.count.value * launch.element.value};
  std::uint32_t misses = 0;
  const auto is_there = [&](Rank peer, const void** data) {
    for (;;) {
      const Peek peek = peek_at(Route{peer, step.is(kMulticastRecv), 0}, bytes, launch.fingerprint, landing);
      *data = peek.data;
      if (peek.state == PeekState::kReady) [[likely]]
        return true;
      if (peek.state == PeekState::kMismatch || ++misses > policy_.bare_spins) return false;
      poll_delay_.pass_between();
    }
  };
  if (delay != nullptr) delay->pass();
  if (step.recv_from == PeerSet::kAll) {
    LaneState& lane = lanes_[0];
    lane.place = rank_;
    lane.members = ranks_;
    for (Rank peer{0}; peer.value < ranks_; ++peer.value)
      if (peer.value != rank_ && !is_there(peer, &lane.sources[static_cast<std::size_t>(peer.value)])) return false;
  } else if (!is_there(Rank{step.recv_peer}, arrived)) {
    return false;
  }
  if (delay != nullptr) delay->learn(misses);
  return true;
}

template Status CpuExecutor<ShmEndpoint>::run_one_pass(const Launch&, WaitMonitor&);
template Status CpuExecutor<InprocEndpoint>::run_one_pass(const Launch&, WaitMonitor&);
template Status CpuExecutor<TcpEndpoint>::run_one_pass(const Launch&, WaitMonitor&);
template Status CpuExecutor<MixedEndpoint>::run_one_pass(const Launch&, WaitMonitor&);

}  // namespace tutti

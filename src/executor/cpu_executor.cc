#include "executor/cpu_executor.h"

#include <algorithm>
#include <utility>

#include "transport/inproc.h"
#include "transport/mixed/mixed.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"

namespace tutti {

namespace {
/// How long a wait lasts before the communicator is asked whether to go on, and how long until it is asked again, for
/// each rank that shares the core: it looks at all ranks, in a turn that the others may wait for. WaitJudge takes
/// longer pauses than a few tenths of a second for a stop of this process.
constexpr std::chrono::nanoseconds kCheckPause{1'000'000};
constexpr std::chrono::nanoseconds kLongestCheckPause{100'000'000};
}  // namespace

template <Endpoint E>
void CpuExecutor<E>::start(const Launch& launch) {
  runs_transfers_ = false;
  work_.bind(launch);
  const Schedule& schedule = *launch.schedule;
  tiles_ = schedule.steps_per_lane == 0 ? 0 : binding().tiles();
  const auto lanes = static_cast<std::size_t>(schedule.shape.lanes);
  if (lanes_.size() < lanes) lanes_.resize(lanes);
  for (std::size_t l = 0; l < lanes; ++l) {
    LaneState& lane = lanes_[l];
    lane.make_room(schedule.largest_set);
    lane.tile = 0;
    lane.step = 0;
    lane.asides = 0;
    lane.seen = 0;
    lane.fingerprint = launch.fingerprint;
  }
  active_lanes_ = lanes;
  awaited_ = kNoRank;
  mismatched_ = kNoRank;
}

template <Endpoint E>
Progress CpuExecutor<E>::advance() {
  if (runs_transfers_) {
    const Progress outcome = point_to_point_.advance();
    awaited_ = point_to_point_.awaited();
    return outcome == Progress::kDone && !settled() ? Progress::kAgain : outcome;
  }
  awaited_ = kNoRank;
  blocked_steps_ = 0;
  bool done = true;
  for (std::size_t l = 0; l < active_lanes_; ++l) {
    const Outcome outcome = advance_lane(lanes_[l], static_cast<std::uint32_t>(l));
    if (outcome == Outcome::kMismatch) return Progress::kFailed;
    done = done && outcome == Outcome::kDone;
  }
  return done && settled() ? Progress::kDone : Progress::kAgain;
}

/// Whether the call may return: readers are done with what was sent by reference, and connections have taken the rest,
/// which nobody would write after the call.
template <Endpoint E>
bool CpuExecutor<E>::settled() {
  if (!kNetwork && (runs_transfers_ || !launch().peers_read_input)) return true;
  return endpoint_->references_released(&awaited_);
}

template <Endpoint E>
auto CpuExecutor<E>::advance_lane(LaneState& lane, std::uint32_t index) -> Outcome {
  const Schedule& schedule = *launch().schedule;
  const std::span<const Step> all = schedule.lane(index);
  const std::size_t ordered = all.size() - schedule.asides_per_lane;
  const std::span<const Step> steps = all.first(ordered), asides = all.subspan(ordered);
  if (steps.empty()) lane.tile = tiles_;
  while (lane.tile < tiles_) {
    const Outcome outcome = run_step(lane, steps[lane.step]);
    if (outcome == Outcome::kBlocked) run_aside(lane, asides);
    if (outcome != Outcome::kDone) return outcome;
    ++progress_;
    lane.seen = 0;
    if (++lane.step == steps.size()) {
      lane.step = 0;
      ++lane.tile;
    }
  }
  // What connections did not take yet need not wait for all the copies.
  while (run_aside(lane, asides))
    if constexpr (kNetwork)
      endpoint_->make_progress();  // so that what is still to be written does not wait for all the copies
  return Outcome::kDone;
}

/// Runs one of the steps that may run at any time, while the lane's own step waits. Returns false if none was left.
/// What the lane's own step has seen so far is kept.
template <Endpoint E>
bool CpuExecutor<E>::run_aside(LaneState& lane, std::span<const Step> asides) {
  if (lane.asides == tiles_ * asides.size()) return false;
  const std::size_t tile = std::exchange(lane.tile, lane.asides / asides.size());
  run_step(lane, asides[lane.asides % asides.size()]);
  lane.tile = tile;
  ++lane.asides;
  ++progress_;
  return true;
}

template <Endpoint E>
auto CpuExecutor<E>::blocked_on(int peer) -> Outcome {
  ++blocked_steps_;
  if (awaited_ == kNoRank || peer < awaited_.value) awaited_ = Rank{peer};
  return Outcome::kBlocked;
}

/// It is not known which reader of a multicast link is late, so the next rank stands for all of them. The boards show
/// which one it is.
template <Endpoint E>
auto CpuExecutor<E>::blocked_on_readers(Route to) -> Outcome {
  if (!to.multicast) return blocked_on(to.peer.value);
  ++blocked_steps_;  // with blocked_on(): more than one rank is waited for
  return blocked_on((rank_ + 1) % ranks_);
}

template <Endpoint E>
auto CpuExecutor<E>::run_step(LaneState& lane, const Step& step) -> Outcome {
  const Binding::Share share = binding().share(step, lane.tile, launch().fingerprint);
  lane.fingerprint = share.fingerprint;
  return share.exists ? run_step(lane, step, share.count) : Outcome::kDone;
}

// Everything that can block comes first, so a step that gets past the claim runs to its end.
template <Endpoint E>
auto CpuExecutor<E>::run_step(LaneState& lane, const Step& step, Elems count) -> Outcome {
  const Bytes bytes{count.value * launch().wire_element.value};
  const std::byte* arrived = nullptr;
  if (step.has(kRecv)) {
    const Outcome outcome =
        StepWork::is_set(step.recv_from) ? receive_all(lane, step, bytes) : receive(lane, step, bytes, &arrived);
    if (outcome != Outcome::kDone) return outcome;
  }
  std::byte* slot = nullptr;
  const bool lent = lends(step, bytes);
  if ((lent || launch().peers_read_input) && step.has(kSend) && step.src_buffer == BufferId::kInput &&
      !step.has(kRecv) && binding().is_one_range(step)) {
    const Outcome outcome = send_reference(lane, step, bytes);
    if (outcome != Outcome::kNotByReference) return outcome;
  }
  const bool sends = step.has(kSend);
  const Route to{Rank{step.send_peer}, step.send_to == PeerSet::kAll, step.lane};
  if (sends) {
    bool ready = false;
    if constexpr (kNetwork) ready = lent && endpoint_->can_send(to);
    if (!lent) ready = (slot = endpoint_->send_claim(to, bytes)) != nullptr;
    if (!ready) return blocked_on_readers(to);
  }
  if (count.value != 0) work_.run(lane, step, count, arrived, slot);
  if (sends && !lent) endpoint_->send_commit(to, bytes, lane.fingerprint);
  if (sends && lent) {
    const std::byte* const stored = binding().destination(step, lane.tile);
    static_cast<void>(endpoint_->send_reference(to, stored, bytes, lane.fingerprint));  // cannot fail: it has a credit
  }
  if (step.has(kRecv)) release(launch(), step, bytes);
  return Outcome::kDone;
}

/// Whether the step's message goes to its reader straight from user memory, where its value lies or is stored.
template <Endpoint E>
bool CpuExecutor<E>::lends([[maybe_unused]] const Step& step, [[maybe_unused]] Bytes bytes) const {
  if constexpr (kNetwork) {
    if (!launch().lends || !step.has(kSend) || !binding().is_one_range(step)) return false;
    const bool from_source = !step.has(kRecv) && (step.src_buffer == BufferId::kInput);
    const bool from_store = step.has(kStore) && step.dst_buffer == BufferId::kOutput;
    const Route to{Rank{step.send_peer}, step.send_to == PeerSet::kAll, step.lane};
    return (from_source || from_store) && endpoint_->lends(to, bytes);
  } else {
    return false;
  }
}

/// Runs a step that only sends the rank's own chunk, and may store it. Returns kNotByReference if nothing was done, and
/// a copy is to be sent.
template <Endpoint E>
auto CpuExecutor<E>::send_reference(const LaneState& lane, const Step& step, Bytes bytes) -> Outcome {
  const Route to{Rank{step.send_peer}, step.send_to == PeerSet::kAll, step.lane};
  const std::byte* const data = binding().source(step, lane.tile);
  switch (endpoint_->send_reference(to, data, bytes, lane.fingerprint)) {
    case ReferenceState::kNotOffered:
      return Outcome::kNotByReference;
    case ReferenceState::kAgain:
      return blocked_on_readers(to);
    case ReferenceState::kSent:
      break;
  }
  if (step.has(kStore)) copy_bytes(binding().destination(step, lane.tile), data, bytes, launch().stream_stores);
  return Outcome::kDone;
}

template <Endpoint E>
auto CpuExecutor<E>::receive(LaneState& lane, const Step& step, Bytes bytes, const std::byte** arrived) -> Outcome {
  const Route from{Rank{step.recv_peer}, step.is(kMulticastRecv), step.lane};
  const Peek found = peek_at(from, bytes, lane.fingerprint, landing(lane, step));
  if (found.state == PeekState::kAgain) return blocked_on(step.recv_peer);
  if (found.state == PeekState::kMismatch) {
    mismatched_ = from.peer;
    return Outcome::kMismatch;
  }
  *arrived = found.data;
  return Outcome::kDone;
}

/// Where the message of the one rank that the step receives from may arrive. nullptr: the endpoint has a place for it.
template <Endpoint E>
std::byte* CpuExecutor<E>::landing(const LaneState& lane, const Step& step) const {
  if (!kNetwork || !step.has(kStore) || launch().wire != launch().type || !binding().is_one_range(step)) return nullptr;
  std::byte* const stored = binding().destination(step, lane.tile);
  const std::byte* const own = step.has(kReduce) ? binding().source(step, lane.tile) : nullptr;
  return lands(launch(), step, own, stored) ? stored : nullptr;
}

template <Endpoint E>
auto CpuExecutor<E>::receive_all(LaneState& lane, const Step& step, Bytes bytes) -> Outcome {
  const PeerList peers = senders_of(launch().schedule->shape, step);
  lane.members = peers.count;
  for (; lane.seen < peers.count; ++lane.seen) {
    const int peer = peers[lane.seen];
    if (peer == rank_) {
      lane.place = lane.seen;
      continue;
    }
    const Route from{Rank{peer}, step.is(kMulticastRecv), step.lane};
    const Peek peek = peek_at(from, bytes, lane.fingerprint, peers.count == 2 ? landing(lane, step) : nullptr);
    if (peek.state == PeekState::kAgain) return blocked_on(peer);
    if (peek.state == PeekState::kMismatch) {
      mismatched_ = from.peer;
      return Outcome::kMismatch;
    }
    lane.sources[static_cast<std::size_t>(lane.seen)] = peek.data;
  }
  return Outcome::kDone;
}

template <Endpoint E>
void CpuExecutor<E>::release(const Launch& launch, const Step& step, Bytes bytes) {
  if (step.recv_from == PeerSet::kOne)
    return endpoint_->recv_release(Route{Rank{step.recv_peer}, step.is(kMulticastRecv), step.lane}, bytes);
  const PeerList peers = senders_of(launch.schedule->shape, step);
  for (int i = 0; i < peers.count; ++i)
    if (peers[i] != rank_) endpoint_->recv_release(Route{Rank{peers[i]}, step.is(kMulticastRecv), step.lane}, bytes);
}

template <Endpoint E>
Status CpuExecutor<E>::run(const Launch& launch, WaitMonitor& monitor) {
  if (launch.one_pass) return run_one_pass(launch, monitor);
  start(launch);
  if (advance() == Progress::kDone) [[likely]]
    return {};
  return wait(monitor);
}

template <Endpoint E>
void CpuExecutor<E>::start(std::span<Transfer> transfers) {
  point_to_point_.start(transfers);  // if it lacks memory, nothing has begun
  runs_transfers_ = true;
  awaited_ = kNoRank;
  mismatched_ = kNoRank;
}

template <Endpoint E>
Status CpuExecutor<E>::run(std::span<Transfer> transfers, WaitMonitor& monitor) {
  start(transfers);
  if (advance() == Progress::kDone) return {};
  return wait(monitor);
}

template <Endpoint E>
Status CpuExecutor<E>::wait(WaitMonitor& monitor) {
  Ladder ladder(policy_, contention_);
  std::uint64_t seen = progress();
  CallBoard& board = endpoint_->board();
  const std::chrono::nanoseconds pause = std::min(kCheckPause * policy_.ranks_per_core, kLongestCheckPause);
  auto next_check = pause;
  for (;;) {
    const Progress outcome = advance();
    if (outcome == Progress::kDone) break;
    if (outcome == Progress::kFailed || monitor.alarmed()) TUTTI_TRY(monitor.check(awaited(), progress()));
    if (progress() != seen) {
      seen = progress();
      ladder.reset();
      next_check = pause;
      continue;
    }
    const Ladder::Rung rung = ladder.climb();
    if (rung == Ladder::Rung::kSpin) continue;
    board.post_awaited(awaited());
    if (ladder.waited() >= next_check) {
      next_check = ladder.waited() + pause;
      TUTTI_TRY(monitor.check(awaited(), progress()));
    }
    if (rung == Ladder::Rung::kSleep && sleep_once(monitor) == Progress::kDone) break;
  }
  board.post_awaited(kNoRank);
  return {};
}

template <Endpoint E>
Progress CpuExecutor<E>::sleep_once(const WaitMonitor& monitor) {
  const Rank only = only_awaited();
  endpoint_->announce_sleep(only);
  const std::uint64_t before = progress();
  const Progress outcome = advance();  // looks again, because what came before the announcement ends no sleep
  if (outcome != Progress::kAgain || progress() != before || only_awaited() != only || monitor.alarmed()) {
    endpoint_->cancel_sleep();
  } else {
    endpoint_->sleep(std::chrono::milliseconds{100});
  }
  return outcome;
}

template class CpuExecutor<ShmEndpoint>;
template class CpuExecutor<InprocEndpoint>;
template class CpuExecutor<TcpEndpoint>;
template class CpuExecutor<MixedEndpoint>;

}  // namespace tutti

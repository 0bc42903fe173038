#include "schedule/simulator/simulation.h"

#include <algorithm>
#include <set>
#include <utility>

#include "schedule/span.h"

namespace tutti {
namespace {

/// Messages up to this size have a ring of their own in shared memory, with this many places.
constexpr std::size_t kSmallMessage = 4096;
constexpr std::uint32_t kSmallCredits = 16;
/// Speeds of messages that are set anew in the time of one step.
constexpr std::uint64_t kUpdatesOfAStep = 8;
/// The simulation looks whether a loop is too slow after an eighth of its rounds.
constexpr std::size_t kEarly = 8;
/// A loop that ends because it had enough steps has so many passes and rounds, because senders run ahead in the first.
constexpr std::size_t kFewestPasses = 24;
constexpr std::size_t kFewestRounds = 4;
/// Links that fit 4 GiB with all that belongs to them.
constexpr std::size_t kMostLinks = 24'000'000;

}  // namespace

Simulation::End Simulation::run(const SimulationPlan& plan, Trace* trace) {
  trace_ = trace;
  start(plan);
  Time now = 0;
  while (passes_ == plan.passes && (!events_.empty() || network_.is_unsettled())) {
    if (network_.is_unsettled() && (events_.empty() || events_.next_time() > now)) network_.settle(now, events_);
    if (events_.empty()) continue;  // where nothing costs anything, settling may end what was left
    const Event event = events_.pop();
    now = event.time;
    // Events of other kinds may be outdated: a message that becomes faster gets a new event, and the old one stays.
    if (event.kind == Event::Kind::kDone && !plan.call.repeated && now > plan.longest) return End::kTooSlow;
    const auto rank = static_cast<std::int32_t>(event.subject);
    switch (event.kind) {
      case Event::Kind::kLook:
        look(rank, event.time);
        break;
      case Event::Kind::kDone:
        end(rank, event.time);
        break;
      case Event::Kind::kWire:
        wire(event.subject, event.time);
        break;
    }
    const std::uint64_t work = work_ + network_.updates() / kUpdatesOfAStep;
    if (work > plan_.most_steps || links_.size() > kMostLinks) return End::kTooManySteps;
    if (too_slow_) return End::kTooSlow;
  }
  return End::kDone;
}

void Simulation::start(const SimulationPlan& plan) {
  plan_ = plan;
  const auto ranks = static_cast<std::size_t>(plan.period);
  lanes_ = static_cast<std::uint32_t>(plan.call.shape.lanes);
  flat_network_ = plan.call.shape.hosts == nullptr;
  extent_ = plan.algorithm->extent(shape_of(0));
  tiling_ = Tiling(extent_, Elems{plan.call.block.value}, Elems{plan.call.tile.value}, Elems{kPartAlign.value});
  events_.clear();
  links_.reset(std::max(plan.call.credits, kSmallCredits));
  multicast_slots_.clear();
  steps_ = work_ = 0;
  finish_.assign(ranks, 0);
  pass_ends_.assign(plan.passes, 0);
  place_ranks();
  count_touches();
  strands_.assign(ranks * lanes_, Strand{});
  workers_.assign(ranks, Worker{});
  passes_ = plan.passes;
  too_slow_ = false;
  std::uint32_t moving = 0;
  for (std::int32_t rank = 0; rank < plan.period; ++rank) {
    const std::uint32_t steps = plan.algorithm->steps(shape_of(rank));
    for (std::uint32_t lane = 0; lane < lanes_; ++lane) {
      Strand& s = strand(rank, lane);
      s.steps = steps;
      if (steps == 0) s.pass = static_cast<std::uint32_t>(plan.passes);
      if (steps == 0) continue;
      ++workers_[static_cast<std::size_t>(rank)].unfinished;
      s.place = moving++;
      load(rank, s);
    }
    events_.push(0, Event::Kind::kLook, static_cast<std::uint32_t>(rank));
  }
  if (plan.round > 0) rhythm_.start(moving, plan.passes / plan.round, !cores_.empty());
}

/// A chunk of the caller's that a step of the same pass has touched is still in the cache: it comes from memory once.
void Simulation::count_touches() {
  first_touches_.assign(static_cast<std::size_t>(plan_.period), kWhole);
  if (!crosses_memory_) return;
  // So many are looked at; further ranks are taken for the last of these that has their place on its host.
  constexpr std::int32_t kCounted = 64;
  std::vector<std::int32_t> last(static_cast<std::size_t>(flat_network_ ? 1 : plan_.call.shape.hosts->most), 0);
  for (std::int32_t rank = 0; rank < plan_.period; ++rank) {
    const auto place = static_cast<std::size_t>(flat_network_ ? 0 : plan_.call.shape.hosts->index_of(rank));
    if (rank >= kCounted) {
      first_touches_[static_cast<std::size_t>(rank)] = first_touches_[static_cast<std::size_t>(last[place])];
      continue;
    }
    last[place] = rank;
    const Shape shape = shape_of(rank);
    std::set<std::pair<BufferId, std::uint32_t>> seen;
    Time touched = 0;
    Time first = 0;
    const auto touch = [&](BufferId buffer, std::uint32_t chunk, std::uint32_t count) {
      if (buffer != BufferId::kInput && buffer != BufferId::kOutput) return;
      touched += count;
      if (seen.emplace(buffer, chunk).second) first += count;
    };
    for (std::uint32_t lane = 0; lane < lanes_; ++lane) {
      for (std::uint32_t i = 0; i < plan_.algorithm->steps(shape); ++i) {
        const Step step = plan_.algorithm->step(shape, lane, i);
        touch(step.src_buffer, step.src_chunk, step.span.count);
        touch(step.dst_buffer, step.dst_chunk, step.span.count);
      }
    }
    if (touched > 0) first_touches_[static_cast<std::size_t>(rank)] = kWhole * first / touched;
  }
}

/// Hosts with more ranks than cores share these: each rank keeps to one.
void Simulation::place_ranks() {
  const auto ranks = static_cast<std::size_t>(plan_.period);
  const Network& net = plan_.network;
  std::int32_t last_host = 0;
  for (std::int32_t rank = 0; rank < plan_.period; ++rank) last_host = std::max(last_host, host_of(rank));
  network_.reset(net, last_host + 1, plan_.call.shape.ranks);
  work_percent_.clear();
  if (!net.slow_hosts.empty()) work_percent_.assign(static_cast<std::size_t>(last_host) + 1, kPercent);
  for (const SlowHost& slow : net.slow_hosts)
    if (slow.host <= last_host) work_percent_[static_cast<std::size_t>(slow.host)] = slow.work_percent;
  const std::int32_t machines = net.same_boot_id ? 1 : last_host + 1;
  memory_idle_.assign(static_cast<std::size_t>(machines), 0);
  std::vector<std::int32_t>& on = core_of_;
  on.assign(ranks, -1);
  cores_.clear();
  const HostMap* const map = plan_.call.shape.hosts;
  const std::int32_t most = net.same_boot_id || (flat_network_ && !net.tcp) ? plan_.period
                            : flat_network_                                 ? 1
                                                                            : map->most;
  const std::int32_t cores = std::max(net.costs.cores, 1);
  const std::size_t blocks = std::max(extent_.input_blocks, 1u) + std::max(extent_.output_blocks, 1u);
  crosses_memory_ = net.costs.memory_kib > 0 &&
                    static_cast<std::size_t>(most) * blocks * plan_.call.block.value > net.costs.cache_bytes;
  if (most <= cores) return;
  cores_.resize(static_cast<std::size_t>(machines) * static_cast<std::size_t>(cores));
  for (std::int32_t rank = 0; rank < plan_.period; ++rank) {
    const bool counted = net.same_boot_id || flat_network_;
    const std::int32_t machine = counted ? 0 : host_of(rank);
    const std::int32_t index = counted ? rank : map->index_of(rank);
    on[static_cast<std::size_t>(rank)] = machine * cores + index % cores;
  }
  for (Core& core : cores_) core.queue.clear();
}

Shape Simulation::shape_of(std::int32_t rank) const {
  Shape shape = plan_.call.shape;
  shape.rank = rank;
  return shape;
}

std::int32_t Simulation::host_of(std::int32_t rank) const {
  if (!flat_network_) return plan_.call.shape.hosts->host_of(rank);
  return plan_.network.tcp ? rank : 0;
}

const LinkCosts& Simulation::costs_between(std::int32_t a, std::int32_t b) const {
  return host_of(a) == host_of(b) ? plan_.network.costs.shm : plan_.network.costs.tcp;
}

std::uint32_t Simulation::credits_for(std::size_t bytes) const {
  return bytes <= kSmallMessage ? std::max(plan_.call.credits, kSmallCredits) : std::max(plan_.call.credits, 1u);
}

/// The ranks are any two; the circle is turned until the reader is one of those that are simulated.
std::uint32_t Simulation::link_between(std::int32_t from, std::int32_t to, std::uint32_t lane, bool multicast) {
  const std::int32_t turn = to / plan_.period * plan_.period;
  const std::int32_t ranks = plan_.call.shape.ranks;
  const std::int32_t turned = from - turn;
  return links_.find(turned < 0 ? turned + ranks : turned, to - turn, lane, multicast);
}

void Simulation::load(std::int32_t rank, Strand& s) {
  const auto lane = static_cast<std::uint32_t>(&s - &strand(rank, 0));
  const Shape shape = shape_of(rank);
  s.step = plan_.algorithm->step(shape, lane, s.number);
  s.seen = 0;
  s.awaited = kNoLink;
  s.peers = s.step.recv_from > PeerSet::kOne ? senders_of(shape, s.step) : PeerList{};
  const bool one = s.step.recv_from == PeerSet::kOne;
  s.in = one ? link_between(s.step.recv_peer, rank, lane, s.step.is(kMulticastRecv)) : kNoLink;
  const bool to_one = s.step.has(kSend) && s.step.send_to != PeerSet::kAll;
  s.out = to_one ? link_between(rank, s.step.send_peer, lane, false) : kNoLink;
  s.bytes = bytes_of(s);
}

/// Counts them as the executor does.
std::size_t Simulation::bytes_of(const Strand& s) const {
  if (extent_.input_blocks == 0 && extent_.output_blocks == 0) return 0;  // a token
  const std::size_t tile = s.pass % plan_.tiles;
  if (plan_.period < plan_.call.shape.ranks) return largest_bytes_of(s, tile);
  const ChunkRange first = tiling_.range(tile, ChunkId{s.step.chunk});
  if (s.step.span.count == 1) return first.count.value;
  if (has_blocks(extent_)) return first.count.value * s.step.span.count;
  const ChunkRange last = tiling_.range(tile, ChunkId{s.step.chunk + s.step.span.count - 1});
  return last.offset.value + last.count.value - first.offset.value;
}

/// Where ranks stand for others, whose chunks at the same time are other ones: the size of the largest.
std::size_t Simulation::largest_bytes_of(const Strand& s, std::size_t tile) const {
  const std::size_t all = std::min(plan_.call.tile.value, plan_.call.block.value);
  const std::size_t bytes = tiling_.range(tile, ChunkId{0}).count.value * s.step.span.count;
  return has_blocks(extent_) ? bytes : std::min(bytes, all);
}

/// Lanes take turns: each runs until it must wait. Whether a step was begun.
bool Simulation::look(std::int32_t rank, Time now) {
  Worker& worker = workers_[static_cast<std::size_t>(rank)];
  if (worker.busy || worker.queued) return false;
  for (std::uint32_t i = 0; i < lanes_; ++i) {
    const std::uint32_t lane = lanes_ == 1 ? 0 : (worker.lane + i) % lanes_;
    Strand& s = strand(rank, lane);
    if (s.pass == plan_.passes || !can_run(rank, s, now)) continue;
    worker.lane = lane;
    begin(rank, lane, now);
    return true;
  }
  return false;
}

bool Simulation::can_run(std::int32_t rank, Strand& s, Time now) {
  if (s.in != kNoLink && !has_message(rank, s, s.in, now)) return false;
  const auto lane = static_cast<std::uint32_t>(&s - &strand(rank, 0));
  for (; s.seen < s.peers.count; ++s.seen) {
    const std::int32_t peer = s.peers[s.seen];
    if (peer == rank) continue;
    if (!has_message(rank, s, link_between(peer, rank, lane, s.step.is(kMulticastRecv)), now)) return false;
  }
  return !s.step.has(kSend) || plan_.call.shape.ranks == 1 || has_slot(rank, s, now);
}

bool Simulation::has_message(std::int32_t rank, Strand& s, std::uint32_t link, Time now) {
  const Time seen = links_.seen_at(link);
  s.wants_slot = false;
  s.awaited = seen == SimulatedLinks::kNever ? link : kNoLink;
  return wait_until(rank, s, seen, now);
}

bool Simulation::has_slot(std::int32_t rank, Strand& s, Time now) {
  const std::uint32_t credits = credits_for(s.bytes);
  const auto index = static_cast<std::uint32_t>(&s - strands_.data());
  Time free = 0;
  if (s.out != kNoLink) {
    free = links_.free_at(s.out, credits);
  } else {
    if (multicast_slots_.empty()) multicast_slots_.resize(strands_.size());
    MulticastSlots& slots = multicast_slots_[index];
    if (slots.count == 0) slots.count = std::min(credits, MulticastSlots::kMost);
    free = slots.free_at();
  }
  s.wants_slot = true;
  s.awaited = free == SimulatedLinks::kNever ? (s.out != kNoLink ? s.out : index) : kNoLink;
  return wait_until(rank, s, free, now);
}

/// Whether the time has come; if it is known, the rank looks again then.
bool Simulation::wait_until(std::int32_t rank, Strand&, Time when, Time now) {
  if (when <= now) return true;
  if (when != SimulatedLinks::kNever) events_.push(when, Event::Kind::kLook, static_cast<std::uint32_t>(rank));
  return false;
}

void Simulation::advance(std::int32_t rank, Strand& s, Time now) {
  if (++s.number == s.steps) {
    s.number = 0;
    Time& end = pass_ends_[s.pass];
    end = std::max(end, now);
    finish_pass(s, now);
    if (++s.pass == plan_.passes) {
      if (--workers_[static_cast<std::size_t>(rank)].unfinished == 0) finish_[static_cast<std::size_t>(rank)] = now;
      return;
    }
  }
  load(rank, s);
}

void Simulation::finish_pass(const Strand& s, Time now) {
  const std::size_t passes = s.pass + std::size_t{1};
  if (plan_.round == 0 || passes % plan_.round != 0) return;
  const std::size_t rounds = passes / plan_.round;
  if (!rhythm_.finish(s.place, rounds - 1, now)) return;
  const bool enough = work_ >= plan_.enough_steps && passes >= kFewestPasses && rounds >= kFewestRounds;
  if (rhythm_.repeats() || enough) passes_ = passes;
  too_slow_ = !rhythm_.repeats() && is_too_slow(rounds);
}

/// The first rounds fill the links, so only the second half of the early ones counts.
bool Simulation::is_too_slow(std::size_t rounds) const {
  const std::size_t early = plan_.passes / plan_.round / kEarly;
  if (rounds != early || early < 2) return false;
  const std::size_t half = rounds / 2;
  const Time time = pass_ends_[rounds * plan_.round - 1] - pass_ends_[half * plan_.round - 1];
  const auto rounds_of_call = static_cast<Time>(plan_.tiles / plan_.round);
  return time / static_cast<Time>(rounds - half) / 2 > plan_.longest / rounds_of_call;
}

void Simulation::wire(std::uint32_t number, Time now) {
  if (!network_.happen(number, now, events_)) return;
  const Transit transit = network_.transit(number);
  network_.forget(number);
  const Time seen = now + network_.latency();
  if (trace_ != nullptr) trace_->messages[transit.trace].seen = seen;
  arrive(transit.link, transit.reader, seen);
}

}  // namespace tutti

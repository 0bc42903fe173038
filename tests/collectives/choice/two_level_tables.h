// The schedules that a call at two levels runs one after the other, written as one schedule of the whole collective.
#pragma once

#include <deque>

#include "collectives/choice/two_level.h"
#include "schedule/tables.h"
#include "schedule/topologies.h"

namespace tutti {

/// One rank's schedule of the whole collective. Its parts are those of the part between hosts, of each share where
/// there are shares; a lane does all three schedules for its parts. Scratch holds what goes into the part between
/// hosts, what comes out of it, and its own scratch.
class Composition {
 public:
  Composition(const TwoLevelPlan& plan, const HostMap& map, Shape shape)
      : plan_(plan),
        map_(map),
        host_(map.host_of(shape.rank)),
        index_(static_cast<std::uint32_t>(map.index_of(shape.rank))),
        parts_(plan.between->extent.parts),
        calls_(plan.form.by_blocks ? static_cast<std::uint32_t>(map.hosts) : 1),
        entering_(plan.form.first == Collective::kNone ? 0 : calls_ * parts_),
        leaving_(plan.form.last == Collective::kNone ? 0 : calls_ * parts_) {
    whole_.algorithm = plan.between->algorithm;
    whole_.shape = shape;
    whole_.shape.lanes = plan.between->shape.lanes;
    const Extent& between = plan.between->extent;
    const auto blocks = [&](std::uint32_t of) { return plan.form.by_blocks && of > 1 ? of * ranks_of_host() : of; };
    whole_.extent = between;
    whole_.extent.parts = plan.form.by_blocks ? parts_ : parts_ * ranks_of_host();
    whole_.extent.input_blocks = blocks(between.input_blocks);
    whole_.extent.output_blocks = blocks(between.output_blocks);
    whole_.extent.scratch_chunks = entering_ + leaving_ + between.scratch_chunks;
  }

  Schedule write() {
    const auto lanes = static_cast<std::uint32_t>(whole_.shape.lanes);
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      if (plan_.first != nullptr) write_in_host(*plan_.first, lane, BufferId::kInput, 0);
      for (const Step& step : plan_.between->lane(lane)) write_between(step);
      if (plan_.last != nullptr) write_in_host(*plan_.last, lane, BufferId::kOutput, entering_);
    }
    whole_.steps_per_lane = static_cast<std::uint32_t>(whole_.steps.size()) / lanes;
    return whole_;
  }

 private:
  std::uint32_t ranks_of_host() const { return static_cast<std::uint32_t>(map_.most); }
  std::int32_t member(std::uint32_t host, std::uint32_t index) const {
    return map_.rank_at(static_cast<std::int32_t>(host), static_cast<std::int32_t>(index));
  }
  /// Where the share of an index, or the block of its rank on a host, begins.
  std::uint32_t begin_of(std::uint32_t host, std::uint32_t index) const {
    return parts_ * (plan_.form.by_blocks ? static_cast<std::uint32_t>(member(host, index)) : index);
  }

  /// All calls of a schedule in the host, part by part. `outer` is the caller's; the other buffer is scratch.
  void write_in_host(const Schedule& schedule, std::uint32_t lane, BufferId outer, std::uint32_t scratch) {
    EXPECT_TRUE(schedule.extent.parts == 1 && schedule.extent.scratch_chunks == 0 && schedule.shape.lanes == 1);
    const std::uint32_t each = parts_ / static_cast<std::uint32_t>(whole_.shape.lanes);
    for (std::uint32_t call = 0; call < calls_; ++call) {
      for (std::uint32_t part = lane * each; part < (lane + 1) * each; ++part) {
        const auto bind = [&](BufferId* buffer, std::uint32_t* chunk) {
          if (*buffer == BufferId::kNone) return;
          *chunk = *buffer == outer ? begin_of(call, *chunk) + part : scratch + call * parts_ + part;
          if (*buffer != outer) *buffer = BufferId::kScratch;
        };
        for (Step step : schedule.steps) {
          step.lane = static_cast<std::uint16_t>(lane);
          step.chunk = begin_of(call, step.chunk) + part;
          bind(&step.src_buffer, &step.src_chunk);
          bind(&step.dst_buffer, &step.dst_chunk);
          add_in_host(step);
        }
      }
    }
  }

  /// A message to or from all becomes one for each other rank of the host. A sum of the host's ranks is not complete.
  void add_in_host(Step step) {
    const auto rank_at = [&](std::int32_t index) {
      return member(static_cast<std::uint32_t>(host_), static_cast<std::uint32_t>(index));
    };
    step.flags &= static_cast<std::uint8_t>(~(kMulticastRecv | kComplete | kAside));
    if (step.recv_from == PeerSet::kAll) step.recv_from = PeerSet::kHost;
    if (step.recv_from == PeerSet::kOne) step.recv_peer = rank_at(step.recv_peer);
    if (step.send_to == PeerSet::kOne) step.send_peer = rank_at(step.send_peer);
    if (step.send_to != PeerSet::kAll) return whole_.steps.push_back(step);
    EXPECT_FALSE(step.has(kRecv));
    step.send_to = PeerSet::kOne;
    for (std::uint32_t i = 1; i < ranks_of_host(); ++i) {
      step.send_peer = rank_at(static_cast<std::int32_t>((index_ + i) % ranks_of_host()));
      whole_.steps.push_back(step);
      step.verbs = kSend;  // stored once
      step.dst_buffer = BufferId::kNone;
      step.dst_chunk = 0;
    }
  }

  void write_between(Step step) {
    EXPECT_EQ(step.span.count, 1u);
    const auto bind = [&](BufferId* buffer, std::uint32_t* chunk) {
      if (*buffer == BufferId::kInput && entering_ != 0) {
        *buffer = BufferId::kScratch;
      } else if (*buffer == BufferId::kOutput && leaving_ != 0) {
        *buffer = BufferId::kScratch;
        *chunk += entering_;
      } else if (*buffer == BufferId::kScratch) {
        *chunk += entering_ + leaving_;
      }
    };
    bind(&step.src_buffer, &step.src_chunk);
    bind(&step.dst_buffer, &step.dst_chunk);
    step.chunk = begin_of(step.chunk / parts_, index_) + step.chunk % parts_;
    whole_.steps.push_back(step);
  }

  const TwoLevelPlan plan_;
  const HostMap& map_;
  const std::int32_t host_;
  const std::uint32_t index_;
  const std::uint32_t parts_;     // of the part between hosts
  const std::uint32_t calls_;     // of each schedule in the host
  const std::uint32_t entering_;  // chunks of scratch
  const std::uint32_t leaving_;
  Schedule whole_;
};

/// The same hosts' calls, one after the other: plans are kept between them, as a communicator does.
class TwoLevelCalls {
 public:
  TwoLevelCalls(const HostList& hosts, int lanes) : topology_(hosts) {
    Machine machine;
    machine.ranks = static_cast<int>(hosts.size());
    machine.lanes = lanes;
    machine.network = true;
    machine.hosts = hosts;
    for (int rank = 0; rank < machine.ranks; ++rank) plans_.emplace_back(machine, Rank{rank}, Bytes{0});
  }

  /// The whole call on all ranks; they look at this object's topology. `block`: bytes, between hosts.
  Tables compose(Collective collective, std::int32_t root, std::size_t block) {
    Tables tables;
    Shape shape{static_cast<std::int32_t>(plans_.size()), 0, root, 1, &topology_.map()};
    for (; shape.rank < shape.ranks; ++shape.rank) {
      TwoLevelPlans& plans = plans_[static_cast<std::size_t>(shape.rank)];
      const TwoLevelPlan plan = plans.find(collective, Bytes{block}, is_rooted(collective) ? root : -1);
      tables.push_back(Composition(plan, topology_.map(), shape).write());
    }
    return tables;
  }

 private:
  const Topology topology_;
  std::deque<TwoLevelPlans> plans_;
};

}  // namespace tutti

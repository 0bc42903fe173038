#include "collectives/choice/network_times.h"

#include <algorithm>

#include "collectives/choice/network_choice.h"
#include "collectives/hierarchical/hierarchical_leaders.h"
#include "collectives/hierarchical/host_rounds.h"
#include "schedule/tiling.h"

namespace tutti {
namespace {
/// 2.5 Gbit/s.
constexpr Time kAssumedWire = 3'276'800;
}  // namespace

LinkCosts network_costs(const Machine& machine) {
  LinkCosts costs = machine.tcp_costs();
  if (costs.wire_kib > 0) return costs;
  costs.wire_kib = kAssumedWire;
  costs.latency = std::max(costs.latency, kUsualNetworkLatency);
  return costs;
}

Time product(std::int64_t count, Time time) {
  Time all = 0;
  return __builtin_mul_overflow(count, time, &all) ? kLongestPart : std::min(all, kLongestPart);
}

Time time_of_further_runs(const Machine& machine, std::size_t bytes, std::int32_t hops, Time latency) {
  const std::size_t runs = div_up(bytes, machine.max_message.value);
  return runs <= 1 ? 0 : product(static_cast<std::int64_t>(runs) - 1, hops * latency);
}

NetworkTimes::NetworkTimes(const Machine& machine, const HostMap* hosts, Bytes bytes)
    : machine_(machine),
      shape_{machine.ranks, 0, 0, 1, hosts},
      tcp_(network_costs(machine)),
      bytes_(std::min(bytes.value, kMostPredictedBytes)),
      count_(hosts::count(shape_)),
      each_(hosts::is_flat(shape_) ? 1 : hosts->most),
      drivers_(hosts::drivers(shape_)),
      turns_(turns(each_)) {}

std::int64_t NetworkTimes::turns(std::int32_t ranks) const {
  return (std::int64_t{ranks} + machine_.costs.cores - 1) / machine_.costs.cores;
}

Time NetworkTimes::processors_of_hop(std::int32_t messages, std::size_t bytes) const {
  const std::size_t all = static_cast<std::size_t>(messages) * bytes;
  return messages * (tcp_.send_overhead + tcp_.recv_overhead) +
         time_of(all, tcp_.send_kib + tcp_.recv_kib + machine_.costs.reduce_kib);
}

Time NetworkTimes::hop(std::int32_t messages, std::size_t bytes, std::int32_t drivers) const {
  const std::size_t all = static_cast<std::size_t>(messages) * bytes;
  const Time copies = time_of(all, tcp_.send_kib + tcp_.recv_kib + machine_.costs.reduce_kib);
  const Time wire = product(drivers, time_of(all, tcp_.wire_kib));
  const Time overheads = messages * (tcp_.send_overhead + tcp_.recv_overhead);
  return tcp_.latency + product(turns(drivers), overheads) + std::max(product(turns(drivers), copies), wire);
}

Time NetworkTimes::overheads_within(std::size_t bytes) const {
  const LinkCosts& shm = machine_.costs.shm;
  return shm.send_overhead + shm.recv_overhead + (bytes > kShortMessage ? shm.long_overhead : 0);
}

Time NetworkTimes::spread_within(std::int32_t pieces) const {
  const std::int32_t others = each_ - 1;
  if (others == 0) return 0;
  const LinkCosts& shm = machine_.costs.shm;
  const std::size_t part = bytes_ / static_cast<std::size_t>(drivers_);
  const Time message = overheads_within(part);
  const Time copies = time_of(part, shm.send_kib + shm.recv_kib);
  const Time work = time_of(part, machine_.costs.reduce_kib + machine_.costs.copy_kib);
  return 2 * (shm.latency + product(turns_ * others, pieces * message + copies)) + product(turns_ * others, work);
}

Time NetworkTimes::memory() const {
  const bool beyond_caches = 2 * bytes_ * static_cast<std::size_t>(each_) > machine_.costs.cache_bytes;
  return beyond_caches ? product(each_, 2 * time_of(bytes_, machine_.costs.memory_kib)) : 0;
}

Time NetworkTimes::passes(std::size_t bytes, std::int32_t hops) const {
  return time_of_further_runs(machine_, bytes, hops, tcp_.latency);
}

Time NetworkTimes::leaders() const {
  const bool one_hop = each_ > 1 && count_ <= hierarchical_leaders::kOneHopHosts;
  const std::int32_t rounds = floor_log2(count_);
  const std::int32_t hops = one_hop ? 1 : rounds + (count_ == 1 << rounds ? 0 : 2);
  const Time between = hops * hop(one_hop ? count_ - 1 : 1, bytes_, 1) + passes(bytes_, hops);
  const std::int32_t others = each_ - 1;
  if (others == 0) return between;
  const LinkCosts& shm = machine_.costs.shm;
  const Time message = overheads_within(bytes_);
  const Time copies = time_of(bytes_, shm.send_kib + shm.recv_kib + machine_.costs.reduce_kib);
  return between + 2 * (shm.latency + product(others, message + copies));
}

/// Its parts are small: passes follow one another like parts, and what happens within hosts goes on beside while the
/// processors have time for it, but for the first part and the last. A rank has the messages of both lanes.
Time NetworkTimes::ring() const {
  const std::int32_t hops = 2 * (count_ - 1);
  const std::size_t part = bytes_ / static_cast<std::size_t>(count_) / static_cast<std::size_t>(drivers_);
  const std::int32_t lanes = network_lanes(Bytes{bytes_}, machine_);
  const Time within = spread_within(lanes * count_);
  const std::size_t message = part / static_cast<std::size_t>(lanes);
  const Time processors = product(hops, product(turns(drivers_), processors_of_hop(lanes, message))) + within;
  return std::max({product(hops, hop(1, part, drivers_)) + within / hops, processors, memory()});
}

/// A part goes twice around but for two hops, of which with two ranks a host one is between hosts. All parts cross each
/// link.
Time NetworkTimes::ring_of_ranks() const {
  const LinkCosts& shm = machine_.costs.shm;
  const int lanes = network_lanes(Bytes{bytes_}, machine_);
  const std::size_t part = bytes_ / static_cast<std::size_t>(machine_.ranks) / static_cast<std::size_t>(lanes);
  // Half of the hops add two operands up, the others store what they receive.
  const Time sum = time_of(part, machine_.costs.reduce_kib);
  const Time far = tcp_.send_overhead + tcp_.recv_overhead + time_of(part, tcp_.send_kib + tcp_.recv_kib) + sum;
  const Time near =
      overheads_within(part) + time_of(part, shm.send_kib + shm.recv_kib + machine_.costs.copy_kib / 2) + sum;
  const Time wire = time_of(part, tcp_.wire_kib);
  const std::int64_t hops = 2 * (std::int64_t{machine_.ranks} - 1);
  const std::int64_t far_hops = 2 * std::int64_t{count_} - (each_ < 3 ? 1 : 0);
  const Time around = product(far_hops, far + tcp_.latency + product(lanes, wire)) +
                      product(hops - far_hops, product(turns_, near) + shm.latency);
  const Time pace = product(lanes, std::max(product(turns_, (far + near) / 2), wire));
  return std::max({around, far + tcp_.latency + product(hops, pace), memory()});
}

Time NetworkTimes::two_shots() const {
  const int lanes = network_lanes(Bytes{bytes_}, machine_);
  const std::size_t part = bytes_ / static_cast<std::size_t>(machine_.ranks);
  return std::max(
      blocks_apart(Collective::kReduceScatter, part, lanes) + blocks_apart(Collective::kAllGather, part, lanes),
      memory());
}

/// A share longer than the messages of two lanes goes in several runs, each with its own messages. While one lane waits
/// for its hops, the other one works.
Time NetworkTimes::exchange(std::int32_t scattered) const {
  const std::int32_t rounds = host_rounds::count(shape_);
  const std::size_t share = bytes_ / static_cast<std::size_t>(drivers_);
  const auto runs = static_cast<std::int32_t>(std::max<std::size_t>(share / machine_.max_message.value, 1));
  Time time = spread_within(scattered < 2 ? 1 : host_rounds::first_members(shape_));
  if (host_rounds::places(shape_) < count_) time += 2 * hop(1, share, drivers_);
  std::size_t part = share;
  for (std::int32_t r = 0; r < rounds; ++r) {
    const std::int32_t members = host_rounds::group(shape_, r).members;
    const bool scatters = r < scattered;
    if (scatters) part /= static_cast<std::size_t>(members);
    const Time again = product(runs - 1, (members - 1) * (tcp_.send_overhead + tcp_.recv_overhead));
    time += (scatters ? 2 : 1) * (hop(members - 1, part, drivers_) + again);
  }
  // Memory has pauses while all ranks wait for the network.
  return std::max(time, memory() + memory() / 5);
}

}  // namespace tutti

#include "collectives/choice/rooted_times.h"

#include "collectives/bruck.h"
#include "collectives/choice/network_choice.h"
#include "collectives/choice/network_times.h"
#include "collectives/hierarchical/host_layout.h"

namespace tutti {

RootedTimes::RootedTimes(const Machine& machine, const HostMap* hosts, Bytes bytes)
    : machine_(machine),
      tcp_(network_costs(machine)),
      bytes_(std::min(bytes.value, kMostPredictedBytes)),
      ranks_(machine.ranks),
      hosts_(hosts::count(Shape{machine.ranks, 0, 0, 1, hosts})),
      each_(hosts == nullptr || hosts->hosts == 1 ? 1 : hosts->most),
      drivers_(hosts::drivers(Shape{machine.ranks, 0, 0, 1, hosts})),
      turns_((std::int64_t{each_} + machine.costs.cores - 1) / machine.costs.cores),
      neighbours_(each_ == 1 || hosts->follow_one_another) {}

/// A socket delivers a block straight to its place, so receiving it needs no copy.
RootedTimes::Message RootedTimes::far(std::size_t bytes, bool adds, std::int64_t blocks) const {
  const Time work = adds ? 2 * time_of(bytes, machine_.costs.reduce_kib) : 0;
  return {tcp_.send_overhead + product(blocks, time_of(bytes, tcp_.send_kib)),
          tcp_.recv_overhead + product(blocks, time_of(bytes, tcp_.recv_kib) + work), tcp_.latency,
          product(blocks, time_of(bytes, tcp_.wire_kib))};
}

RootedTimes::Message RootedTimes::near(std::size_t bytes, bool adds) const {
  const LinkCosts& shm = machine_.costs.shm;
  const Time work = time_of(bytes, adds ? 2 * machine_.costs.reduce_kib : machine_.costs.copy_kib);
  const Time fetch = bytes > kShortMessage ? shm.long_overhead : 0;
  return {shm.send_overhead + time_of(bytes, shm.send_kib),
          shm.recv_overhead + fetch + time_of(bytes, shm.recv_kib) + work, shm.latency, 0};
}

RootedTimes::Levels RootedTimes::levels(std::int64_t places, std::int32_t radix) {
  Levels levels;
  for (std::int64_t span = 1; span < places; span *= radix) {
    const auto children = static_cast<std::int32_t>(std::min<std::int64_t>(radix, (places + span - 1) / span) - 1);
    levels.of[levels.count++] = {children, static_cast<std::int32_t>(span)};
    levels.children += children;
  }
  return levels;
}

RootedTimes::Message RootedTimes::far_in_tree(std::size_t bytes, std::int64_t blocks) const {
  Message one = far(bytes, false, blocks);
  if (!neighbours_) one.wire = product(each_, one.wire);
  return one;
}

Time RootedTimes::spread_within(std::size_t bytes) const { return to_several(each_ - 1, near(bytes)); }

/// Sums are made in one pass, which reads each operand once.
Time RootedTimes::gather_within(std::size_t bytes, bool adds) const {
  if (each_ == 1) return 0;
  Message message = near(bytes, adds);
  if (adds) message.receives -= time_of(bytes, machine_.costs.reduce_kib);
  return message.hop() + product(each_ - 2, message.receives);
}

Time RootedTimes::from_several(std::int32_t count, const Message& one) {
  return count == 0 ? 0 : one.sends + one.latency + product(count, one.wire) + product(count, one.receives);
}

Time RootedTimes::to_several(std::int32_t count, const Message& one) {
  return count == 0 ? 0 : one.hop() + product(count - 1, one.pace());
}

Time RootedTimes::passes(std::size_t bytes, std::int32_t hops) const {
  return time_of_further_runs(machine_, bytes, hops, tcp_.latency);
}

RootedTimes::Message RootedTimes::in_turn(Message one) const {
  one.sends = product(turns_, one.sends);
  one.receives = product(turns_, one.receives);
  return one;
}

/// Ranks that share a core lose a hand-over each time one of them has waited: once for each hop down the tree, and once
/// more at the end. (Up a tree, in the simulator, that counts for next to nothing.)
Time RootedTimes::handovers(std::int32_t hops) const {
  return turns_ > 1 ? product(turns_ * (hops + 1), machine_.costs.handover) : 0;
}

/// A place sends to its children from the largest subtree on. Where the link is slower than the processor, its messages
/// are under way together and share it, so that a child waits for what goes to smaller subtrees, too. A single child on
/// the top level has a smaller subtree if the tree is not full, and the root may then be done later than that child.
Time RootedTimes::down_tree(std::int64_t places, std::int32_t radix, const Message& one) {
  if (places <= 1) return 0;
  const Levels all = levels(places, radix);
  const Level& top = all.top();
  const Time held_up = product(all.children - 1, std::max<Time>(one.wire - one.sends, 0));
  const Time below = down_tree(top.span, radix, one);
  if (top.children > 1) return one.hop() + held_up + product(top.children - 1, one.sends) + below;
  const std::int64_t rest = places - top.span;
  const Time of_child = rest == top.span ? below : down_tree(rest, radix, one);
  return std::max(std::max(one.sends, one.wire) + below, one.hop() + held_up + of_child);
}

/// A place adds its children's results from the smallest subtree on, so on each level it waits for that level alone.
Time RootedTimes::up_tree(std::int64_t places, std::int32_t radix, const Message& one) {
  if (places <= 1) return 0;
  const Levels all = levels(places, radix);
  const Level& top = all.top();
  const Time below = up_tree(top.span, radix, one);
  if (top.children > 1) return below + from_several(top.children, one);
  const std::int64_t rest = places - top.span;
  const Time of_child = rest == top.span ? below : up_tree(rest, radix, one);
  return std::max(below + std::max(one.receives, one.wire), of_child + one.hop());
}

Time RootedTimes::broadcast_tree(std::int32_t radix) const {
  return down_tree(ranks_, radix, far(bytes_)) + passes(bytes_, levels(ranks_, radix).depth());
}

Time RootedTimes::broadcast_tree_of_hosts() const {
  return down_tree(hosts_, 2, far(bytes_)) + spread_within(bytes_) + passes(bytes_, levels(hosts_, 2).depth());
}

/// The root serves the drivers of its host before, and each driver serves its host afterwards.
Time RootedTimes::broadcast_knomial_of_hosts(std::int32_t radix) const {
  const std::size_t share = bytes_ / static_cast<std::size_t>(drivers_);
  const Message near_one = near(share);
  const Time before = to_several(others_that_drive(), near_one);
  const Time after = each_ > 1 ? near_one.latency + within(in_turn(near_one)) : 0;
  const std::int32_t hops = levels(hosts_, radix).depth();
  const Time between = down_tree(hosts_, radix, in_turn(far_of_driver(share, false))) + handovers(hops);
  return std::max(before + between + after + passes(share, hops), memory_with_pauses());
}

/// Half of the data goes down each tree, in which a rank has two children.
Time RootedTimes::broadcast_double_tree() const {
  const Message half = far(bytes_ / 2);
  const std::int32_t hops = ceil_log2(ranks_);
  return product(hops, half.hop() + std::max(half.sends, half.wire)) + passes(bytes_, hops);
}

/// A binomial tree hands out the parts. Where the link is slower than the processor, what a host sends to its children
/// is under way together, and beside it go as many parts around the ring as the longest message has. A host passes
/// others' parts on once it has its own, so those after it in the ring wait for the latest one. Nobody knows the root,
/// which may be the last rank of its host: then the others of its host are one more host at the end.
Time RootedTimes::first_around(std::size_t bytes, Time past_host) const {
  const std::size_t part = bytes / static_cast<std::size_t>(hosts_);
  const Message one = far_in_tree(part);
  const Time held_up = std::max<Time>(one.wire - one.sends, 0);
  std::int32_t places = each_ > 1 ? hosts_ + 1 : hosts_;
  std::int32_t after = places - 1;
  Time time = 0, latest = product(after, past_host);
  while (places > 1) {
    const std::int32_t half = 1 << (ceil_log2(places) - 1);
    const bool last_is_longest = places - half > half / 2;
    const std::int32_t longest = last_is_longest ? places - half : half / 2;
    time += far_in_tree(static_cast<std::size_t>(longest) * part).hop() + product(places - 1, held_up);
    after -= last_is_longest ? half : half / 2;
    latest = std::max(latest, time + product(after, past_host));
    places = longest;
  }
  return latest;
}

/// The parts go around a ring then, and when the first ones have come to the last rank, the others are still to cross
/// its host's link. Of further tiles the root's link carries all parts twice, down the tree and around, and some other
/// rank receives all of them, passes them on and has handed half of them down.
Time RootedTimes::scatter_all_gather() const {
  const auto ranks = static_cast<std::size_t>(ranks_);
  const auto parts = static_cast<std::size_t>(bruck::most_gathered(ranks_));  // of the longest message
  const std::size_t tiles = std::max<std::size_t>(div_up(bytes_, ranks * machine_.max_message.value / parts), 1);
  const std::size_t part = bytes_ / tiles / ranks;
  const Message all = in_turn(far_in_tree(bytes_ / tiles));
  const Message far_part = in_turn(far_in_tree(part)), near_part = in_turn(near(part));
  const Time within = product(each_ - 1, near_part.hop());
  const Time first = first_around(bytes_ / tiles, far_part.hop() + within) + within;
  const Time others = product(ranks_ - each_ - 1, far_part.pace_through());
  const Time processor = product(ranks_, far_part.sends + far_part.receives) + all.sends / 2;
  const Time pace = std::max(2 * (all.wire - all.wire / hosts_), processor);
  return std::max(first + others + product(static_cast<std::int64_t>(tiles) - 1, pace), memory_with_pauses());
}

RootedTimes::Tiles RootedTimes::tiles(Bytes tile, int lanes) const {
  const auto shares = static_cast<std::size_t>(lanes) * static_cast<std::size_t>(drivers_);
  const std::size_t bytes = std::max<std::size_t>(bytes_, 1);
  const std::size_t each = std::min({bytes, tile.value, machine_.max_message.value * shares});
  return {each / shares, static_cast<std::int64_t>(div_up(bytes, each)) - 1};
}

RootedTimes::Message RootedTimes::far_of_driver(std::size_t bytes, bool adds) const {
  Message one = far(bytes, adds);
  one.wire = product(drivers_, one.wire);
  return one;
}

Time RootedTimes::within(const Message& near) const { return product(each_ - 1, near.sends + near.receives); }

/// The busiest host has two children in one tree, and in the other one none; or it is the root, to which the drivers of
/// its host hand their sums. Broadcast and reduce differ in which end of a message it is twice.
Time RootedTimes::double_tree_of_hosts(bool adds) const {
  const int lanes = network_lanes(Bytes{bytes_}, machine_);
  const Tiles all = tiles(network_tree_tile(Bytes{bytes_}), lanes);
  const Message far_one = far_of_driver(all.message, adds), near_one = near(all.message);
  const Time twice = adds ? far_one.receives : far_one.sends;
  const Time once = adds ? far_one.sends : far_one.receives;
  const bool splits = hosts_ > 3;  // some host has two children
  const Time fill = splits && lanes > 1 ? time_of(all.message, machine_.costs.copy_kib) : 0;
  const Time inner = product(lanes, once) + 2 * twice + fill;
  const Time root = product(lanes, twice + (adds ? product(drivers_ - 1, near_one.receives) : 0));
  // Down, a lane waits for the slower of two children. With nothing else to do meanwhile a rank that is alone on its
  // host loses some 25 % (in the simulator; up, nothing).
  const Time idle = splits && each_ == 1 && !adds ? inner / 4 : 0;
  const Time processor = product(lanes, within(near_one)) + std::max(inner + idle, root);
  const Time pace = std::max({product(turns_, processor), 2 * far_one.wire, credit_pace(far_one)});
  const Time ends = each_ > 1 ? 2 * (product(turns_, within(near_one)) + near_one.latency) : 0;
  // On so many levels of a path a message waits for another one: that of the other tree, or that of the other child.
  const std::int32_t waits = lanes - 1 + (splits ? floor_log2(hosts_ - 2) : 0);
  const Time wait = std::max(product(turns_, twice), far_one.wire);
  const Time levels = product(ceil_log2(hosts_), in_turn(far_one).hop()) + product(waits, wait) +
                      (adds ? 0 : handovers(ceil_log2(hosts_)));
  return std::max(levels + ends + product(all.others, pace), adds ? memory_with_pauses() : memory());
}

Time RootedTimes::broadcast_double_tree_of_hosts() const { return double_tree_of_hosts(false); }
Time RootedTimes::reduce_double_tree_of_hosts() const { return double_tree_of_hosts(true); }

Time RootedTimes::memory() const {
  const auto buffers = static_cast<std::size_t>(each_) + 1;
  if (buffers * bytes_ <= machine_.costs.cache_bytes) return 0;
  return product(each_ + 1, time_of(bytes_, machine_.costs.memory_kib));
}

Time RootedTimes::broadcast_chain() const {
  const int lanes = network_lanes(Bytes{bytes_}, machine_);
  const Tiles all = tiles(network_chain_tile(Bytes{bytes_}, hosts_), lanes);
  const Message far_one = far_of_driver(all.message, false), near_one = near(all.message);
  const Time processor = product(lanes, far_one.sends + far_one.receives + within(near_one));
  const Time pace = std::max({product(turns_, processor), product(lanes, far_one.wire), credit_pace(far_one)});
  const Time ends = each_ > 1 ? 2 * (product(turns_, within(near_one)) + near_one.latency) : 0;
  // Where the link holds messages up, both lanes' are under way together, unless ranks begin them at different times,
  // as those of a host do about half of the time.
  const Time held_up = product(lanes - 1, std::max<Time>(far_one.wire - far_one.sends, 0)) / (each_ > 1 ? 2 : 1);
  const Time hops = product(hosts_ - 1, in_turn(far_one).hop() + held_up);
  return std::max(hops + ends + product(all.others, pace), memory());
}

Time RootedTimes::reduce_tree(std::int32_t radix) const {
  return up_tree(ranks_, radix, far(bytes_, true)) + passes(bytes_, levels(ranks_, radix).depth());
}

Time RootedTimes::reduce_tree_of_hosts() const {
  return up_tree(hosts_, 2, far(bytes_, true)) + gather_within(bytes_, true) +
         passes(bytes_, levels(hosts_, 2).depth());
}

/// Each rank hands the others of its host what it has of their shares before, and the root fetches the sums afterwards.
Time RootedTimes::reduce_knomial_of_hosts(std::int32_t radix) const {
  const std::size_t share = bytes_ / static_cast<std::size_t>(drivers_);
  const Message near_one = near(share);
  Time before = 0;
  if (each_ > 1) {
    const Time work = product(others_that_drive(), near_one.sends) + gather_within(share, true) - near_one.latency;
    before = near_one.latency + product(turns_, work);
  }
  const Time after = from_several(others_that_drive(), near_one);
  const Time between = up_tree(hosts_, radix, in_turn(far_of_driver(share, true)));
  return std::max(before + between + after + passes(share, levels(hosts_, radix).depth()), memory());
}

Time RootedTimes::reduce_double_tree() const {
  const Message half = far(bytes_ / 2, true);
  const std::int32_t hops = ceil_log2(ranks_);
  return product(hops, half.hop() + std::max(half.receives, half.wire)) + passes(bytes_, hops);
}

/// From rank to rank, so that each host's link has one message at a time if its ranks are neighbours.
Time RootedTimes::reduce_chain() const {
  const std::int32_t far_hops = neighbours_ ? hosts_ - 1 : ranks_ - 1;
  const std::size_t tile = std::min(network_chain_tile(Bytes{bytes_}, ranks_).value, machine_.max_message.value);
  const std::size_t message = std::max<std::size_t>(std::min(bytes_, tile), 1);
  const Message far_one = far(message, true), near_one = near(message, true);
  const Time apart = std::max(far_one.sends + near_one.receives, near_one.sends + far_one.receives);
  const Time processor = each_ > 1 && neighbours_ ? apart : far_one.sends + far_one.receives;
  const Time pace = std::max({product(turns_, processor), far_one.wire, credit_pace(far_one)});
  const auto others = static_cast<std::int64_t>(div_up(std::max<std::size_t>(bytes_, 1), message)) - 1;
  const Time hops = product(far_hops, far_one.hop()) + product(ranks_ - 1 - far_hops, near_one.hop());
  return std::max(hops + product(others, pace), memory());
}

}  // namespace tutti

// The times of all-gathers, reduce-scatters and all-to-alls; those of all-reduces are in network_times.cc.
#include <algorithm>

#include "collectives/bruck.h"
#include "collectives/choice/network_choice.h"
#include "collectives/choice/network_times.h"
#include "collectives/hierarchical/hierarchical_all_to_all.h"
#include "collectives/hierarchical/hierarchical_rounds.h"
#include "collectives/pat.h"
#include "schedule/tiling.h"

namespace tutti {

Time NetworkTimes::memory_of_results() const {
  const std::size_t blocks = static_cast<std::size_t>(machine_.ranks + 1) * static_cast<std::size_t>(each_);
  if (blocks * bytes_ <= machine_.costs.cache_bytes) return 0;
  return product(static_cast<std::int64_t>(blocks), time_of(bytes_, machine_.costs.memory_kib));
}

/// A driver hands a row on before it serves its host, which so goes on beside the network while the processors have
/// time for it, but for the first row and the last.
Time NetworkTimes::rings_of_blocks(bool adds) const {
  const std::int32_t rows = (each_ + drivers_ - 1) / drivers_;  // a driver's message is one block
  const int lanes = network_lanes(Bytes{bytes_}, machine_);
  const LinkCosts& shm = machine_.costs.shm;
  const Time work = adds ? machine_.costs.reduce_kib : machine_.costs.copy_kib;
  const Time near = product(lanes, overheads_within(bytes_)) + time_of(bytes_, shm.send_kib + shm.recv_kib + work);
  const Time row = product(turns_ * (each_ - 1), near);
  const Time overheads = tcp_.send_overhead + tcp_.recv_overhead;
  const Time copies = time_of(bytes_, tcp_.send_kib + tcp_.recv_kib + (adds ? 2 * machine_.costs.reduce_kib : 0));
  const Time wire = product(drivers_, time_of(bytes_, tcp_.wire_kib));
  const std::int64_t messages = std::int64_t{count_ - 1} * rows;
  const Time hop = tcp_.latency + product(turns(drivers_), overheads) + std::max(copies / lanes, wire);
  const Time processors = product(messages, product(turns(drivers_), lanes * overheads + copies));
  const Time within = product(count_ * rows, row);
  return std::max({product(messages, hop) + 2 * row, processors + within, memory_of_results()});
}

/// One message at a time: what it takes to be sent, to cross the link and to be received add up.
Time NetworkTimes::blocks_to_all(bool adds) const {
  const Time work = adds ? 2 * machine_.costs.reduce_kib : 0;
  const Time block =
      time_of(bytes_, tcp_.send_kib + tcp_.recv_kib + work) + product(each_, time_of(bytes_, tcp_.wire_kib));
  return product(machine_.ranks - 1, block);
}

/// If the number of ranks is no power of two, sums go in two pieces, which ranks divide in different places: one may
/// wait for a small piece while the other one sends a large one. In the simulator that costs a hop, and bytes count up
/// to twice.
Time NetworkTimes::blocks_together(bool adds) const {
  const std::int32_t rounds = ceil_log2(machine_.ranks);
  const std::size_t longest = static_cast<std::size_t>(bruck::most_gathered(machine_.ranks)) * bytes_;
  const std::int32_t uneven = adds && machine_.ranks != 1 << rounds ? 1 : 0;
  return (rounds + uneven) * hop(1, 0, 1) + passes(longest, rounds) + product(1 + uneven, blocks_to_all(adds));
}

/// Up to a group's ranks there are as few rounds as in Bruck's algorithm.
Time NetworkTimes::blocks_in_groups(bool adds) const {
  const std::int32_t groups = pat::groups_of(shape_);
  const std::int32_t rounds = groups == 1 ? ceil_log2(machine_.ranks) : pat::kGroupBits + 1;
  const std::int32_t hops = rounds + (groups == 1 ? 0 : groups);
  const Time messages = product(groups, rounds * (tcp_.send_overhead + tcp_.recv_overhead));
  const std::size_t longest = (std::size_t{1} << (std::min(rounds, pat::kGroupBits) - 1)) * bytes_;
  return product(hops, tcp_.latency) + messages + passes(longest, hops) + blocks_to_all(adds);
}

/// The rows that a round brings to a host cross its link. The rank that receives them then hands them on to all other
/// ranks of the host, which takes longest where few ranks receive rows for all. Messages of both lanes share the link
/// and so come at the same time: no lane works meanwhile. A host with one driver has
/// one lane (lanes_for() of choice.cc), and what a message takes at its ends and on the link adds up.
Time NetworkTimes::rows_in_rounds(bool adds) const {
  const hierarchical_rounds::Rounds x = hierarchical_rounds::rounds_of(shape_);
  const std::size_t chunk = machine_.max_message.value / hierarchical_rounds::message_chunks(shape_);
  const auto passes =
      static_cast<std::int64_t>(div_up(std::max<std::size_t>(bytes_, 1), std::max(chunk, kPartAlign.value)));
  const std::size_t longest = hierarchical_rounds::message_chunks(shape_) * bytes_;
  const int lanes = drivers_ == 1 ? 1 : network_lanes(Bytes{longest}, machine_);
  const LinkCosts& shm = machine_.costs.shm;
  const Time sum = 2 * machine_.costs.reduce_kib;
  const Time overheads = product(passes * turns_, tcp_.send_overhead + tcp_.recv_overhead);
  const std::int64_t others = std::int64_t{turns_} * (each_ - 1);
  const Time row = product(each_, time_of(bytes_, tcp_.wire_kib));
  const Time sent = product(turns_ * each_, time_of(bytes_, tcp_.send_kib + tcp_.recv_kib + (adds ? sum : 0)));
  // In an all-gather the rank that receives rows sends them to all others of its host. In a reduce-scatter the rank
  // that sends rows first adds up what these have for them.
  const Time serves = time_of(bytes_, adds ? shm.recv_kib + sum : shm.send_kib);
  const Time is_served = time_of(bytes_, adds ? shm.send_kib : shm.recv_kib + machine_.costs.copy_kib);
  Time between = 0;
  Time messages = product(others, overheads_within(bytes_));
  Time copies = product(each_ - 1, serves + is_served);
  for (std::int32_t round = 0; round < x.count; ++round) {
    const std::int32_t rows = x.rows_after(round) - x.rows_before(round);
    const Time hops = product((passes + lanes - 1) / lanes, tcp_.latency);  // both lanes wait for one at the same time
    const Time ends = product(x.rows(round, 0), sent), link = product(rows, row);
    between += hops + overheads + (lanes > 1 ? std::max(ends, link) : ends + link);
    messages += shm.latency + product(others, overheads_within(static_cast<std::size_t>(each_) * bytes_));
    const std::int64_t own = x.rows(round, 0);
    copies += product(each_, product(own * (each_ - 1), serves) + product(rows - own, is_served));
  }
  const Time within = each_ > 1 ? product(passes, messages) + product(turns_, copies) : 0;
  const Time memory = memory_of_results();
  return std::max(between + within, memory + memory * 2 / 5);  // it has pauses while all ranks wait for the network
}

Time NetworkTimes::memory_of_blocks() const {
  const std::size_t ranks = static_cast<std::size_t>(machine_.ranks);
  const std::size_t blocks = 2 * ranks * static_cast<std::size_t>(each_);
  if (blocks * bytes_ <= machine_.costs.cache_bytes) return 0;
  return product(static_cast<std::int64_t>(blocks), time_of(bytes_, machine_.costs.memory_kib));
}

/// All sends come before the first receipt; those of an all-gather or reduce-scatter leave together. Messages that a
/// link holds up are under way together, so that about half of them are there only with the last one; meanwhile blocks
/// come from the own host. Who shares a core sends after the other one.
Time NetworkTimes::blocks_apart(Collective collective) const {
  const Time memory = collective == Collective::kAllToAll ? memory_of_blocks() : memory_of_results();
  return std::max(blocks_apart(collective, bytes_, 1), memory);
}

Time NetworkTimes::blocks_apart(Collective collective, std::size_t bytes, std::int64_t messages) const {
  const std::size_t parts = std::max<std::size_t>(div_up(bytes, machine_.max_message.value), 1);
  const std::size_t part = bytes / parts;
  const std::int32_t far = machine_.ranks - each_;
  const Time send = product(messages, tcp_.send_overhead) + time_of(part, tcp_.send_kib);
  const Time receive = product(messages, tcp_.recv_overhead) + time_of(part, tcp_.recv_kib);
  const Time wire = product(far, product(each_, time_of(part, tcp_.wire_kib)));
  const LinkCosts& shm = machine_.costs.shm;
  const Time copies = time_of(part, shm.send_kib + shm.recv_kib + machine_.costs.copy_kib);
  const Time near = product(each_ - 1, overheads_within(part) + copies);
  const Time sends = product(far, send), receives = product(far, receive);
  const Time held_up = product(turns_ - 1, sends) + send + tcp_.latency + std::max(wire, near) + receives / 2;
  const bool together = collective != Collective::kAllToAll;
  const Time last = sends + tcp_.latency + (together ? receives : receive);
  const Time busy = std::max(product(turns_, sends + near + receives), last);
  const Time sum = reduces(collective) ? product(machine_.ranks, time_of(part, machine_.costs.reduce_kib)) : 0;
  return product(static_cast<std::int64_t>(parts), std::max(busy, held_up) + sum);
}

Time NetworkTimes::blocks_by_hosts(std::int32_t rounds) const {
  namespace all_to_all = hierarchical_all_to_all;
  const all_to_all::Exchange x = all_to_all::exchange_of(shape_, rounds);
  const auto chunks = static_cast<std::size_t>(all_to_all::message_chunks(x));
  const std::size_t chunk = std::max(machine_.max_message.value / chunks, kPartAlign.value);
  const auto passes = static_cast<std::int64_t>(bytes_ <= chunk ? 1 : div_up(bytes_, chunk));
  Time between = 0;
  Time processors = 0;
  for (std::int32_t r = 0; r < x.rounds; ++r) {
    const all_to_all::Round round = all_to_all::round_at(x, r);
    const std::int32_t messages = all_to_all::values(x, round);
    const std::int32_t rows = x.p.hosts - all_to_all::rows_of(x, round, 0);
    const std::int64_t blocks = std::int64_t{rows} * x.row_size() - std::int64_t{messages} * (x.row_size() - drivers_);
    const Time sends = product(passes * messages, tcp_.send_overhead) + product(blocks, time_of(bytes_, tcp_.send_kib));
    const Time receives =
        product(passes * messages, tcp_.recv_overhead) + product(blocks, time_of(bytes_, tcp_.recv_kib));
    const Time wire = product(blocks, product(drivers_, time_of(bytes_, tcp_.wire_kib)));
    // All sends come before the first receipt, also those of ranks that share a core, and the link carries meanwhile.
    const Time last =
        product(passes, tcp_.latency) + std::max(product(turns_, sends) + receives / std::max(messages, 1), wire);
    between += std::max(product(turns_, sends + receives), last);
    processors += sends + receives;
  }
  const LinkCosts& shm = machine_.costs.shm;
  const Time moved = 2 * machine_.costs.copy_kib + (drivers_ > 1 ? shm.send_kib + shm.recv_kib : 0);
  const std::int64_t messages = passes * all_to_all::groups_of(x) * (drivers_ - 1);
  const Time within =
      product(messages, overheads_within(kShortMessage + 1)) + product(machine_.ranks, time_of(bytes_, moved));
  // If there are several passes, one lane works within the hosts while the other one waits for the network. About half
  // of that is hidden, because messages of both lanes share a link and so come at the same time.
  const Time later = product(turns_ - 1, within);
  const Time in_turn = between + later + (passes > 1 ? within / 2 : within);
  // All ranks of a host wait for the network and then for its memory, unless their lanes happen to take turns.
  const Time memory = memory_of_blocks() > 0 ? between + memory_of_blocks() : 0;
  const Time time = std::max({in_turn, product(turns_, processors + within), memory});
  const bool ranks_beyond = all_to_all::ranks_beyond(shape_, x.p) > 0;
  return ranks_beyond ? std::max(time, blocks_apart(Collective::kAllToAll)) : time;
}

/// To a rank at a distance below the ranks of a host, only so many of a host's ranks send over its link. All wait for
/// the network in the same rounds, so memory's time comes on top.
Time NetworkTimes::blocks_in_rounds() const {
  const std::int32_t rounds = ceil_log2(machine_.ranks);
  const auto most = static_cast<std::size_t>(bruck::most_exchanged(machine_.ranks));
  const Time copies = time_of(bytes_, tcp_.send_kib + tcp_.recv_kib);
  Time time = rounds * hop(1, 0, 1) + passes(most * bytes_, rounds);
  for (std::int32_t round = 0; round < rounds; ++round) {
    const Time wire = product(std::min(1 << round, each_), time_of(bytes_, tcp_.wire_kib));
    time += product(bruck::exchanged(machine_.ranks, round), std::max(copies, wire));
  }
  return std::min(time + memory_of_blocks(), kLongestPart);
}

}  // namespace tutti

#include "collectives/choice/automatic_choice.h"

#include <algorithm>
#include <bit>

#include "collectives/choice/catalogue.h"
#include "collectives/choice/cost_model.h"

namespace tutti {
namespace {

/// So many have been measured. 16 and 32 ranks on 2 cores were chosen for worse than by thresholds (up to 2.2 of the
/// best), and the first question took them half a second.
constexpr int kMostModelledRanks = 8;

}  // namespace

AutomaticChoice::AutomaticChoice(const Machine& machine)
    : machine_(machine), topology_(machine.hosts.empty() ? nullptr : std::make_unique<const Topology>(machine.hosts)) {
  // There may be thousands of ranks, and the map says the same in less memory.
  machine_.hosts.clear();
  machine_.hosts.shrink_to_fit();
}

bool AutomaticChoice::is_for(const Machine& machine) const {
  const bool has_hosts = !machine.hosts.empty();
  if (machine.ranks != machine_.ranks || has_hosts != (topology_ != nullptr)) return false;
  for (std::size_t rank = 0; rank < machine.hosts.size(); ++rank)
    if (hosts()->host_of(static_cast<std::int32_t>(rank)) != machine.hosts[rank]) return false;
  Machine without_hosts = machine;
  without_hosts.hosts.clear();
  return without_hosts == machine_;
}

bool AutomaticChoice::is_modelled(const Machine& machine) {
  const bool known = machine.same_host_id || machine.tcp_costs().wire_kib > 0;
  return known && machine.ranks > 1 && machine.ranks <= kMostModelledRanks;
}

/// 0 for 0 bytes; from there on groups end with 1, 2, 3, 4, 6, 8, 12, 16 ... bytes: what changes with the size
/// (messages that are larger, a tile more) changes above powers of two.
std::size_t AutomaticChoice::group_of(Bytes block) {
  if (block.value == 0) return 0;
  std::size_t group = 1 + 2 * static_cast<std::size_t>(std::bit_width(block.value - 1));
  if (group > 1 && largest_of(group - 1) >= block) --group;
  return std::min(group, kGroups - 1);
}

Bytes AutomaticChoice::largest_of(std::size_t group) {
  if (group == 0) return Bytes{0};
  const std::size_t octave = group / 2;
  const std::size_t end = std::size_t{1} << octave;
  return Bytes{group % 2 == 1 ? end : end - end / 4};
}

const Algorithm* AutomaticChoice::find(Collective collective, Bytes block) const {
  const Collective scheduled = scheduled_as(collective);
  // No rank of an all-to-all-v knows the counts of all.
  if (!is_modelled(machine_) || collective == Collective::kAllToAllV)
    return find_algorithm(scheduled, automatic_algorithm(collective, block, machine_, hosts()));
  const std::size_t group = group_of(block);
  std::atomic<std::uint8_t>& found = found_[static_cast<std::size_t>(collective)][group];
  if (const std::uint8_t place = found.load(std::memory_order_relaxed); place != 0) return &catalogue()[place - 1u];
  const MutexLock lock(mutex_);
  if (const std::uint8_t place = found.load(std::memory_order_relaxed); place != 0) return &catalogue()[place - 1u];
  const Algorithm* algorithm = CostModel(machine_, hosts()).best(collective, largest_of(group));
  if (algorithm == nullptr)
    algorithm = find_algorithm(scheduled, automatic_algorithm(collective, block, machine_, hosts()));
  if (algorithm != nullptr)
    found.store(static_cast<std::uint8_t>(algorithm - catalogue().data() + 1), std::memory_order_relaxed);
  return algorithm;
}

}  // namespace tutti

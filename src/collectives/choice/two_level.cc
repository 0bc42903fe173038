#include "collectives/choice/two_level.h"

#include <utility>

#include "collectives/choice/catalogue.h"
#include "collectives/choice/choice.h"
#include "collectives/choice/network_choice.h"
#include "collectives/steps_together.h"

namespace tutti {

bool two_level_form(Collective collective, TwoLevelForm* form) {
  *form = TwoLevelForm{};
  switch (collective) {
    case Collective::kAllReduce:
      form->first = Collective::kReduceScatter;
      form->last = Collective::kAllGather;
      return true;
    case Collective::kReduce:
      form->first = Collective::kReduceScatter;
      form->last = Collective::kGather;
      form->last_at_root = true;
      return true;
    case Collective::kBroadcast:
      form->first = Collective::kScatter;
      form->last = Collective::kAllGather;
      form->first_at_root = true;
      return true;
    case Collective::kReduceScatter:
      form->first = Collective::kReduceScatter;
      form->by_blocks = true;
      return true;
    case Collective::kAllGather:
      form->last = Collective::kAllGather;
      form->by_blocks = true;
      return true;
    default:
      return false;
  }
}

const Algorithm& between_hosts(Collective collective, Bytes block, int hosts) {
  return *find_algorithm(collective, named_peers_algorithm(collective, block, hosts));
}

TwoLevelPlans::TwoLevelPlans(const Machine& machine, Rank rank, Bytes tile)
    : topology_(machine.hosts), rank_(rank), tile_(tile), between_(machine) {
  between_.ranks = hosts().hosts;
  between_.network = true;
  between_.hosts.clear();
  between_.costs = Costs{};
}

TwoLevelPlan TwoLevelPlans::find(Collective collective, Bytes block, int root) {
  TwoLevelPlan plan;
  (void)two_level_form(collective, &plan.form);
  const bool rooted = root >= 0;
  const int root_index = rooted ? hosts().index_of(root) : 0;
  const int root_host = rooted ? hosts().host_of(root) : 0;
  const bool at_root = rooted && root_host == host();
  if (!plan.form.first_at_root || at_root) plan.first = in_host(plan.form.first, root_index);
  if (!plan.form.last_at_root || at_root) plan.last = in_host(plan.form.last, root_index);
  const Choice choice =
      choose(collective, block, between_, between_hosts(collective, block, hosts().hosts), tile_, nullptr);
  plan.between = keep(*choice.algorithm, root_host, choice.lanes, true);
  plan.tile = choice.tile_bytes;
  return plan;
}

const Schedule* TwoLevelPlans::in_host(Collective collective, int root) {
  if (collective == Collective::kNone) return nullptr;
  return keep(*find_algorithm(collective, "all_pairs"), is_rooted(collective) ? root : 0, 1, false);
}

const Schedule* TwoLevelPlans::keep(const Algorithm& algorithm, int root, int lanes, bool between) {
  auto& known = (between ? between_hosts_ : in_host_)[Key{&algorithm, root, lanes}];
  if (known != nullptr) return known.get();
  const HostMap& map = hosts();
  Shape shape{map.most, index(), root, lanes, nullptr};
  if (between) shape = Shape{map.hosts, host(), root, lanes, nullptr};
  Schedule schedule = build_schedule(algorithm, shape);
  mark_what_runs_together(&schedule);
  // That the algorithms between hosts name each peer is tested for all of them.
  if (between) (void)renumber_peers(ranks_with_index(map, index()), &schedule);
  known = std::make_unique<const Schedule>(std::move(schedule));
  return known.get();
}

}  // namespace tutti

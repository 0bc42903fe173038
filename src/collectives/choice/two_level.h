// Collectives at two levels, where every host has the same number of ranks and these do their part in another way than
// by the links between hosts: kernels on the devices of a host, and the network.
//
//   all_reduce       reduce_scatter in the host, all_reduce between hosts, all_gather in the host
//   reduce           reduce_scatter in the host, reduce between hosts, gather in the root's host
//   broadcast        scatter in the root's host, broadcast between hosts, all_gather in the host
//   reduce_scatter   for each host the reduce_scatter of its ranks' blocks, reduce_scatter between hosts
//   all_gather       all_gather between hosts, for each host the all_gather of its ranks' blocks
//
// Between hosts the ranks of one index, one per host, do their share by themselves, all indices side by side: so all
// links of a host are in use, and each byte crosses the network once as in a hierarchical ring (hierarchical_ring.h;
// levels of networks in collectives: Karonis et al., IPDPS 2000). A host's partial results stand in the order of its
// lowest rank, as everywhere.
#pragma once

#include <map>
#include <memory>
#include <tuple>

#include "core/machine.h"
#include "core/types.h"
#include "core/units.h"
#include "schedule/host_map.h"
#include "schedule/schedule.h"

namespace tutti {

/// What is done in the host; between hosts it is the collective itself.
struct TwoLevelForm {
  Collective first = Collective::kNone;  ///< before; kNone: nothing
  Collective last = Collective::kNone;   ///< after; likewise
  bool by_blocks = false;      ///< blocks stay whole, and there is a call a host; else each rank of a host has a share
  bool first_at_root = false;  ///< in the root's host only
  bool last_at_root = false;
};

/// False: the collective has none.
bool two_level_form(Collective collective, TwoLevelForm* form);

/// The algorithm between hosts for blocks of so many bytes; its steps name each peer.
const Algorithm& between_hosts(Collective collective, Bytes block, int hosts);

/// One rank's schedules of a call.
struct TwoLevelPlan {
  TwoLevelForm form;
  const Schedule* first = nullptr;    ///< among the ranks of the host, numbered by index; nullptr: nothing to do
  const Schedule* between = nullptr;  ///< with the communicator's numbers
  const Schedule* last = nullptr;     ///< as `first`
  Bytes tile;                         ///< of `between`
};

/// One per communicator; used by the thread that runs its operation. Schedules live as long.
class TwoLevelPlans {
 public:
  /// `machine`: of the ranks' links, with hosts(); `tile`: TUTTI_TILE_BYTES.
  TwoLevelPlans(const Machine& machine, Rank rank, Bytes tile);

  /// Whether ranks so spread over hosts can do it.
  static bool fits(const HostMap& map) { return map.hosts > 1 && map.most > 1 && map.fewest == map.most; }

  const HostMap& hosts() const { return topology_.map(); }
  /// The rank's place among those of its host.
  int index() const { return hosts().index_of(rank_.value); }
  int host() const { return hosts().host_of(rank_.value); }

  /// `block`: bytes of a block of the part between hosts. `root`: -1: the collective has none. The collective has a
  /// form.
  TwoLevelPlan find(Collective collective, Bytes block, int root);
  /// What the part between hosts of such a call would run.
  const char* name_between(Collective collective, Bytes block) const {
    return between_hosts(collective, block, hosts().hosts).name;
  }

 private:
  using Key = std::tuple<const Algorithm*, int, int>;  // algorithm, root, lanes

  const Schedule* in_host(Collective collective, int root);
  const Schedule* keep(const Algorithm& algorithm, int root, int lanes, bool between);

  const Topology topology_;
  const Rank rank_;
  const Bytes tile_;
  Machine between_;  // as the ranks of one index see it
  std::map<Key, std::unique_ptr<const Schedule>> in_host_;
  std::map<Key, std::unique_ptr<const Schedule>> between_hosts_;
};

}  // namespace tutti

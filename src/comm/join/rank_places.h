// Where the ranks of a new communicator are, by the member table: hosts, processes, cores.
#pragma once

#include <vector>

#include "comm/membership/process_order.h"
#include "comm/messages/messages.h"
#include "core/units.h"

namespace tutti {

/// The host of each rank, as a number. Ranks share a host if their host ids are equal and all ranks with that id could
/// map each other's segments; if some could not, which are in `apart`, only the ranks of one process share one. It
/// follows from the table and the go message alone, so that all ranks get the same answer.
std::vector<int> hosts_of(const MemberList& members, const std::vector<Rank>& apart);
/// The process of each rank, as a number, in the order of the processes' lowest ranks.
std::vector<int> processes_of(const ProcessOrder& order, std::size_t ranks);
/// Whether all ranks have the same host id, whether or not they share memory.
bool have_one_host_id(const MemberList& members);
/// How many of the ranks run on the cores of the host `self`; 1 if nothing is known of these.
int ranks_of_same_boot(const MemberHost& self, const MemberList& members);
/// The cores that the ranks have together that run on the cores of this one: see cores_among().
int cores_of_same_boot(Rank rank, const MemberList& members);
/// A number that is the same on all ranks: 1 if some member's cores are not known, or it runs on another machine.
int ranks_per_core_of(const MemberList& members);

}  // namespace tutti

// The choice between hosts by closed forms (network_times.h, rooted_times.h): the algorithm that they say takes the
// least time; of those that take the same, the simpler one.
#pragma once

#include <string_view>

#include "core/machine.h"
#include "core/types.h"
#include "schedule/host_map.h"

namespace tutti {

/// Up to so many ranks may have all blocks of an all-to-all under way at once: each has a block for each other anyway.
inline constexpr int kTcpAllPairsBlocks = 64;
/// Up to so many may where that is predicted to be worth it: a switch's queues may be too short for so many at once.
inline constexpr int kTcpAllPairsMost = 256;

/// Whether no ranks share a host, as far as is known.
bool is_alone(const Machine& machine, const HostMap* hosts);
/// The size above which a ring of so many ranks, or hosts, may be chosen: the measured one, or a larger one if they are
/// so many that a smaller share of each would not be worth its hops.
std::size_t ring_from(int ranks, std::size_t measured);
/// Whether a message has room for so many chunks: where slots are set to be tiny it has not.
bool holds_chunks(const Machine& machine, int chunks);
/// Whether it has for what an algorithm sends in one.
bool holds_messages(const Machine& machine, const HostMap* hosts, Collective collective, std::string_view name);

// All of them: `bytes` of the call, or of a block where there is one a rank; two hosts or more. Pure functions; any
// thread.
std::string_view all_reduce_by_time(std::size_t bytes, const Machine& machine, const HostMap* hosts);
std::string_view broadcast_by_time(std::size_t bytes, const Machine& machine, const HostMap* hosts);
std::string_view reduce_by_time(std::size_t bytes, const Machine& machine, const HostMap* hosts);
std::string_view all_to_all_by_time(std::size_t bytes, const Machine& machine, const HostMap* hosts);
/// Every rank has a host of its own.
std::string_view barrier_by_time(const Machine& machine);
/// Gather or scatter.
std::string_view rooted_blocks_by_time(Collective collective, std::size_t bytes, const Machine& machine,
                                       const HostMap* hosts);
/// All-gather or reduce-scatter. Blocks may travel together, up to half of them in a message.
std::string_view exchange_of_blocks_by_time(Collective collective, std::size_t bytes, const Machine& machine,
                                            const HostMap* hosts);

}  // namespace tutti

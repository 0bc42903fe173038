// Costs as text: lines of a name and a whole number (picoseconds, picoseconds a KiB, bytes, cores); "#" begins a
// comment. Where a machine's measured costs are kept, and which are in force.
#pragma once

#include <cstdint>
#include <string>

#include "core/costs.h"
#include "core/settings.h"
#include "core/status.h"

namespace tutti {

/// The largest number that a text of costs may have.
inline constexpr std::int64_t kLargestCost = INT32_MAX;

/// Values that the text does not name stay as they are. `origin` is for the text of an error; *costs is then unchanged.
Status parse_costs(const std::string& text, const std::string& origin, Costs* costs);
Status read_costs(const std::string& path, Costs* costs);
/// What parse_costs reads.
std::string costs_text(const Costs& costs);

/// Processor, cores and memory of this machine in one line.
std::string machine_description();
/// Where tutti-probe keeps what it measured on a machine like this one: costs-<hash of the description> in the folder
/// tutti of the user's cache folder; empty: the user has none.
std::string costs_cache_path();

/// The network by which other hosts reach this one.
struct LocalNetwork {
  std::string name;  ///< interface and network, part of a file's name: "eth0-10.1.0.0-16"; empty: there is none
  std::int64_t megabits = 0;  ///< a second, as the interface is said to transfer; 0: nobody says it
};
/// Where `tutti-probe --hosts` keeps what it measured on this network: network-<name> beside costs_cache_path(); empty:
/// there is no network, or the user has no cache folder.
std::string network_costs_path(const LocalNetwork& network);

/// The costs in force by TUTTI_COSTS. `auto`: those of costs_cache_path() if there is such a file, else the built-in
/// ones; and of the network what network_costs_path() has, else the rate of the interface and kUsualNetworkLatency, if
/// the rate is known (a file that cannot be read is warned of). `builtin`. Or those of the file that it names, an error
/// if it cannot be read. `cores` is this machine's unless a file says it.
Status costs_in_force(const Settings& settings, const LocalNetwork& network, Costs* costs);

}  // namespace tutti

// The ranks, hosts and links that tutti-plan and tutti-sim work with, as the library would see them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives/choice/automatic_choice.h"
#include "collectives/choice/choice.h"
#include "core/machine.h"
#include "core/status.h"
#include "schedule/simulator/simulator.h"

namespace tutti::model {

struct WorldOptions {
  int ranks = 0;
  int hosts = 1;              ///< ranks are divided among them, neighbours together
  std::string transport;      ///< shm (within hosts; tcp between them) or tcp (everywhere)
  std::string costs;          ///< a file of costs, "machine" for those in force here, or empty for the built-in ones
  std::string latency;        ///< between hosts, with a unit, such as 5us; empty for that of the costs
  std::string bandwidth;      ///< of a host's link, such as 10gbit; empty for that of the costs
  int cores = 0;              ///< of a host; 0 for those of the costs
  bool same_boot_id = false;  ///< all hosts share the cores of one machine; a single host always does
  int hosts_per_leaf = 0;     ///< of a fat tree; 0 if there is one switch
  double oversubscription = 1;
  std::string hosts_on_leaves;  ///< filled (leaf after leaf, or empty), dealt (to the leaves in turn) or shuffled
  std::string slow_hosts;       ///< host:factor, or a list: processors and memory take so many times as long
  std::string slow_links;       ///< host:factor, or a list: the link carries so many times less
  std::size_t max_message = 0;  ///< 0 for the library's
};

/// It must not be moved, because schedules point into it.
class World {
 public:
  /// The status says what is wrong with the options.
  static Status make(const WorldOptions& options, std::unique_ptr<World>* world);

  const Machine& machine() const { return choice_->machine(); }
  const Network& network() const { return network_; }
  const HostMap* hosts() const { return choice_->hosts(); }
  /// Describes it, such as "8 ranks of one host, shared memory".
  const std::string& text() const { return text_; }

  /// The library's choice. It takes the algorithm `name`, unless that is empty or "auto".
  Choice choose_algorithm(Collective collective, Bytes block, const std::string& name, Bytes tile = {}) const;
  /// Whether the library chooses by predicted times, and not by thresholds.
  bool is_modelled() const { return AutomaticChoice::is_modelled(machine()); }
  /// The schedule's shape and sizes of a choice.
  SimulatedCall call(const Choice& choice, Bytes block, int root) const;

 private:
  World() = default;

  Network network_;
  std::unique_ptr<const AutomaticChoice> choice_;
  std::string text_;
};

/// Returns Collective::kNone if there is none of that name. nccl-tests' spellings are accepted.
Collective find_collective(const std::string& name);
/// All collectives that have algorithms, separated by blanks.
std::string collective_names();

/// The words between commas; empty ones count.
std::vector<std::string> split_list(const std::string& text);
/// Reads "8", "64K", "1.5M"; returns false if the text is no size.
bool parse_size(const std::string& text, std::size_t* bytes);
/// Reads "12", "1.5us", "3ms"; without a unit the time is in nanoseconds.
bool parse_time(const std::string& text, Time* time);
/// Reads "10gbit", "800mbit"; `a_kib` becomes the time of a KiB.
bool parse_rate(const std::string& text, Time* a_kib);

/// Writes "1.23 us", "45.6 ms", with three or four digits.
std::string time_text(Time time);
/// Writes "64K".
std::string size_text(std::size_t bytes);

/// The bus bandwidth as nccl-tests counts it, in GB/s.
double bus_bandwidth(Collective collective, int ranks, Bytes block, Time time);

}  // namespace tutti::model

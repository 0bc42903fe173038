// The ranks, hosts and links that tutti-plan and tutti-sim speak of, as the library would see them.
#pragma once

#include <memory>
#include <string>

#include "collectives/automatic_choice.h"
#include "collectives/choice.h"
#include "core/machine.h"
#include "core/status.h"
#include "schedule/simulator.h"

namespace tutti::model {

struct WorldOptions {
  int ranks = 0;
  int hosts = 1;              ///< ranks are divided among them, neighbours together
  std::string transport;      ///< shm (within hosts; tcp between them) or tcp (everywhere)
  std::string costs;          ///< a file of costs; "machine": those in force here; empty: the built-in ones
  std::string latency;        ///< between hosts, with a unit: 5us; empty: that of the costs
  std::string bandwidth;      ///< of a host's link: 10gbit; empty: that of the costs
  int cores = 0;              ///< of a host; 0: those of the costs
  bool same_boot_id = false;  ///< all hosts share the cores of one machine; one host always does
  int hosts_per_leaf = 0;     ///< of a fat tree; 0: one switch
  double oversubscription = 1;
  std::size_t max_message = 256 * 1024;
};

/// Not to be moved: schedules point into it.
class World {
 public:
  /// Status: what is wrong with the options.
  static Status make(const WorldOptions& options, std::unique_ptr<World>* world);

  const Machine& machine() const { return choice_->machine(); }
  const Network& network() const { return network_; }
  const HostMap* hosts() const { return choice_->hosts(); }
  /// "8 ranks of one host, shared memory".
  const std::string& text() const { return text_; }

  /// The library's choice; `name`: an algorithm that it is told to take, empty or "auto": none.
  Choice choose_algorithm(Collective collective, Bytes block, const std::string& name, Bytes tile = {}) const;
  /// Whether that goes by predicted times, and not by thresholds.
  bool is_modelled() const { return AutomaticChoice::is_modelled(machine()); }
  /// The schedule's shape and sizes of a choice.
  SimulatedCall call(const Choice& choice, Bytes block, int root) const;

 private:
  World() = default;

  Network network_;
  std::unique_ptr<const AutomaticChoice> choice_;
  std::string text_;
};

/// Collective::kNone: none of that name. nccl-tests' spellings are accepted.
Collective find_collective(const std::string& name);
/// All that have algorithms, separated by blanks.
std::string collective_names();

/// "8", "64K", "1.5M"; false: no size.
bool parse_size(const std::string& text, std::size_t* bytes);
/// "12", "1.5us", "3ms": without a unit nanoseconds.
bool parse_time(const std::string& text, Time* time);
/// "10gbit", "800mbit": the time of a KiB.
bool parse_rate(const std::string& text, Time* a_kib);

/// "1.23 us", "45.6 ms": three or four digits.
std::string time_text(Time time);
/// "64K".
std::string size_text(std::size_t bytes);

/// Bytes that one rank's buffers hold, for a bus bandwidth as nccl-tests counts it: GB/s.
double bus_bandwidth(Collective collective, int ranks, Bytes block, Time time);

}  // namespace tutti::model

#include "model/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>

#include "core/costs_file.h"
#include "core/machine.h"
#include "core/settings.h"
#include "net/local_network.h"

namespace tutti::model {
namespace {

/// The largest values that the simulator can calculate with.
constexpr Time kSlowestMessage = 10'000'000'000'000;
constexpr int kMostRanks = 1 << 22;
constexpr int kSlowest = 100;
/// The library's communicators have so many.
constexpr int kLanes = 2;
constexpr std::uint32_t kCredits = 4;

struct CollectiveName {
  const char* name;
  Collective collective;
};
constexpr std::array<CollectiveName, 10> kOtherNames{{{"allreduce", Collective::kAllReduce},
                                                      {"reducescatter", Collective::kReduceScatter},
                                                      {"reduce-scatter", Collective::kReduceScatter},
                                                      {"allgather", Collective::kAllGather},
                                                      {"bcast", Collective::kBroadcast},
                                                      {"alltoall", Collective::kAllToAll},
                                                      {"all-reduce", Collective::kAllReduce},
                                                      {"all-gather", Collective::kAllGather},
                                                      {"all-to-all", Collective::kAllToAll},
                                                      {"sync", Collective::kBarrier}}};

/// A unit that may follow a number.
struct Unit {
  const char* name;
  double factor;
};
template <std::size_t N>
bool parse_with_unit(const std::string& text, const Unit (&units)[N], double* value) {
  if (text.empty() || std::string("0123456789.").find(text[0]) == std::string::npos) return false;
  char* end = nullptr;
  *value = std::strtod(text.c_str(), &end);
  for (const Unit& unit : units) {
    if (std::string(end) != unit.name) continue;
    *value *= unit.factor;
    return std::isfinite(*value) && *value < 1e15;
  }
  return false;
}

bool is_all_tcp(const WorldOptions& options) { return options.transport == "tcp" && options.ranks > 1; }

/// Ranks that are all connected by tcp have a link each, as if each were a host.
int hosts_of(const WorldOptions& options) { return is_all_tcp(options) ? options.ranks : options.hosts; }

/// The largest message. A single rank has links in shared memory, to nobody.
Bytes message_of(const WorldOptions& options) {
  if (options.max_message != 0) return Bytes{options.max_message};
  return largest_message(Machine{}.max_message, options.ranks > 1 && hosts_of(options) == options.ranks);
}

/// Sets the hosts' places on the leaves, unless they fill one leaf after the other.
Status set_places(const WorldOptions& options, FatTree* tree) {
  if (options.hosts_on_leaves.empty() || options.hosts_on_leaves == "filled") return {};
  if (options.hosts_per_leaf == 0)
    return fail(Code::kInvalidArgument, "--hosts-on-leaves: there is one switch; --hosts-per-leaf makes leaves");
  const int hosts = hosts_of(options);
  tree->places.resize(static_cast<std::size_t>(hosts));
  std::iota(tree->places.begin(), tree->places.end(), 0);
  if (options.hosts_on_leaves == "dealt") {
    const int leaves = (hosts + options.hosts_per_leaf - 1) / options.hosts_per_leaf;
    for (std::int32_t& place : tree->places) place = place % leaves * options.hosts_per_leaf + place / leaves;
    return {};
  }
  if (options.hosts_on_leaves != "shuffled")
    return fail(Code::kInvalidArgument, "--hosts-on-leaves: '{}' is neither filled nor dealt nor shuffled",
                options.hosts_on_leaves);
  // The order that std::shuffle gives may differ from one standard library to the next.
  std::mt19937 random(1);
  for (std::size_t left = tree->places.size(); left > 1; --left)
    std::swap(tree->places[left - 1], tree->places[random() % left]);
  return {};
}

/// Calls found(host, percent) for each "host:factor" of the list.
template <typename Found>
Status each_slow(const char* option, const std::string& list, int hosts, const Found& found) {
  if (list.empty()) return {};
  std::vector<int> seen;
  for (const std::string& word : split_list(list)) {
    int host = -1;
    double factor = 0;
    char rest = 0;
    const bool is_read = std::sscanf(word.c_str(), "%d:%lf%c", &host, &factor, &rest) == 2;
    if (!is_read || !(factor >= 1 && factor <= kSlowest))
      return fail(Code::kInvalidArgument, "{}: '{}' is no host with a factor of 1 to {} (example: 3:2)", option, word,
                  kSlowest);
    if (host < 0 || host >= hosts)
      return fail(Code::kInvalidArgument, "{}: there is no host {} of {}", option, host, hosts);
    if (std::find(seen.begin(), seen.end(), host) != seen.end())
      return fail(Code::kInvalidArgument, "{}: host {} is named twice", option, host);
    seen.push_back(host);
    found(host, static_cast<std::int32_t>(std::lround(factor * 100)));
  }
  return {};
}

Status set_slow_hosts(const WorldOptions& options, Network* network) {
  if (!options.slow_links.empty() && network->costs.tcp.wire_kib == 0)
    return fail(Code::kInvalidArgument, "--slow-link: links take no time here; --bandwidth gives them a rate");
  std::vector<SlowHost>* const slow = &network->slow_hosts;
  const auto of = [&](int host) -> SlowHost& {
    const auto it = std::find_if(slow->begin(), slow->end(), [&](const SlowHost& one) { return one.host == host; });
    return it != slow->end() ? *it : slow->emplace_back(SlowHost{host});
  };
  TUTTI_TRY(each_slow("--slow-host", options.slow_hosts, hosts_of(options),
                      [&](int host, std::int32_t percent) { of(host).work_percent = percent; }));
  TUTTI_TRY(each_slow("--slow-link", options.slow_links, hosts_of(options),
                      [&](int host, std::int32_t percent) { of(host).link_percent = percent; }));
  for (const SlowHost& one : *slow)
    if (time_of(message_of(options).value, network->costs.tcp.wire_kib) > kSlowestMessage / one.link_percent * 100)
      return fail(Code::kInvalidArgument, "--slow-link: a message of {} to host {} would take more than 10 s",
                  size_text(message_of(options).value), one.host);
  return {};
}

Status set_network(const WorldOptions& options, Network* network) {
  if (options.costs == "machine") {
    Settings settings;
    TUTTI_TRY(read_settings(&settings));
    TUTTI_TRY(costs_in_force(settings, local_network(settings), &network->costs));
  } else if (!options.costs.empty()) {
    TUTTI_TRY(read_costs(options.costs, &network->costs));
  }
  Machine machine;
  machine.costs = network->costs;
  machine.same_host_id = options.hosts == 1;
  network->costs.tcp = machine.tcp_costs();  // which the options below change
  network->costs.network_latency = network->costs.network_wire_kib = 0;
  if (options.cores > 0) network->costs.cores = options.cores;
  if (!options.latency.empty() && !parse_time(options.latency, &network->costs.tcp.latency))
    return fail(Code::kInvalidArgument, "--latency: '{}' is no time (examples: 500ns, 5us, 1.5ms)", options.latency);
  if (!options.bandwidth.empty() && !parse_rate(options.bandwidth, &network->costs.tcp.wire_kib))
    return fail(Code::kInvalidArgument, "--bandwidth: '{}' is no rate (examples: 800mbit, 10gbit)", options.bandwidth);
  if (!(options.oversubscription >= 1 && options.oversubscription <= 1000))
    return fail(Code::kInvalidArgument, "--oversubscription: {} is not between 1 and 1000", options.oversubscription);
  if (time_of(message_of(options).value, network->costs.tcp.wire_kib) > kSlowestMessage)
    return fail(Code::kInvalidArgument, "--bandwidth: a message of {} would take more than 10 s",
                size_text(message_of(options).value));
  network->tree.hosts_per_leaf = options.hosts_per_leaf;
  network->tree.oversubscription_percent = static_cast<std::int32_t>(std::lround(options.oversubscription * 100));
  TUTTI_TRY(set_places(options, &network->tree));
  return set_slow_hosts(options, network);
}

}  // namespace

Status World::make(const WorldOptions& options, std::unique_ptr<World>* result) {
  if (options.ranks < 1 || options.ranks > kMostRanks)
    return fail(Code::kInvalidArgument, "--ranks: {} is not between 1 and {}", options.ranks, kMostRanks);
  if (options.hosts < 1 || options.hosts > options.ranks)
    return fail(Code::kInvalidArgument, "--hosts: {} hosts for {} ranks", options.hosts, options.ranks);
  if (!options.transport.empty() && options.transport != "shm" && options.transport != "tcp")
    return fail(Code::kInvalidArgument, "--transport: '{}' is neither shm nor tcp", options.transport);
  std::unique_ptr<World> world(new World);
  TUTTI_TRY(set_network(options, &world->network_));

  const bool all_tcp = is_all_tcp(options);
  const auto ranks = static_cast<std::size_t>(options.ranks);
  std::vector<int> host_of(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank)
    host_of[rank] = static_cast<int>(rank * static_cast<std::size_t>(options.hosts) / ranks);
  Machine machine;
  machine.ranks = options.ranks;
  machine.lanes = kLanes;
  machine.max_message = message_of(options);
  machine.credits = kCredits;
  machine.network = all_tcp || options.hosts > 1;
  machine.same_boot_id = options.hosts == 1 || options.same_boot_id;
  machine.hosts = host_of;
  if (all_tcp) std::iota(machine.hosts.begin(), machine.hosts.end(), 0);
  machine.same_host_id = options.hosts == 1;
  machine.costs = world->network_.costs;
  if (machine.same_boot_id) machine.ranks_per_core = (options.ranks + machine.costs.cores - 1) / machine.costs.cores;
  world->network_.tcp = machine.network;
  world->network_.same_boot_id = machine.same_boot_id;
  const std::string where = options.hosts == 1 ? "of one host" : fmt::format("on {} hosts", options.hosts);
  const char* how = all_tcp ? "tcp" : options.hosts == 1 ? "shared memory" : "tcp between hosts, shared memory within";
  world->text_ = fmt::format("{} rank{} {}, {}", options.ranks, options.ranks == 1 ? "" : "s", where, how);
  world->choice_ = std::make_unique<const AutomaticChoice>(machine);
  *result = std::move(world);
  return {};
}

Choice World::choose_algorithm(Collective collective, Bytes block, const std::string& name, Bytes tile) const {
  if (!name.empty() && name != "auto") return choose(collective, block, machine(), name, tile, hosts());
  const Algorithm* const algorithm = choice_->find(collective, block);
  return algorithm == nullptr ? Choice{} : choose(collective, block, machine(), *algorithm, tile, hosts());
}

SimulatedCall World::call(const Choice& choice, Bytes block, int root) const {
  SimulatedCall call;
  call.shape = Shape{machine().ranks, 0, root, choice.lanes, hosts()};
  call.block = block;
  call.tile = choice.tile_bytes;
  call.credits = machine().credits;
  return call;
}

Collective find_collective(const std::string& name) {
  for (int i = 0; i < kCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    if (has_algorithms(collective) && scheduled_as(collective) == collective && name == name_of(collective))
      return collective;
  }
  for (const CollectiveName& other : kOtherNames)
    if (name == other.name) return other.collective;
  return Collective::kNone;
}

std::string collective_names() {
  std::string names;
  for (int i = 0; i < kCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    if (!has_algorithms(collective) || scheduled_as(collective) != collective) continue;
    names += (names.empty() ? "" : " ") + std::string(name_of(collective));
  }
  return names;
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    words.push_back(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return words;
}

bool parse_size(const std::string& text, std::size_t* bytes) {
  constexpr double kKib = 1024;
  const Unit units[] = {{"", 1},
                        {"B", 1},
                        {"K", kKib},
                        {"KiB", kKib},
                        {"k", kKib},
                        {"M", kKib * kKib},
                        {"MiB", kKib * kKib},
                        {"m", kKib * kKib},
                        {"G", kKib * kKib * kKib},
                        {"GiB", kKib * kKib * kKib},
                        {"g", kKib * kKib * kKib}};
  double value = 0;
  if (!parse_with_unit(text, units, &value)) return false;
  *bytes = static_cast<std::size_t>(std::llround(value));
  return true;
}

bool parse_time(const std::string& text, Time* time) {
  const Unit units[] = {{"", 1e3}, {"ps", 1}, {"ns", 1e3}, {"us", 1e6}, {"ms", 1e9}};
  double value = 0;
  if (!parse_with_unit(text, units, &value)) return false;
  *time = static_cast<Time>(std::llround(value));
  return true;
}

bool parse_rate(const std::string& text, Time* a_kib) {
  const Unit units[] = {{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {"tbit", 1e12}};
  double bits = 0;
  if (!parse_with_unit(text, units, &bits) || bits < 1e3) return false;
  *a_kib = static_cast<Time>(std::llround(1024.0 * 8.0 / bits * 1e12));
  return true;
}

std::string time_text(Time time) {
  const auto value = static_cast<double>(time);
  if (time < 1'000'000) return fmt::format("{:.0f} ns", value / 1e3);
  if (time < 1'000'000'000) return fmt::format("{:.4g} us", value / 1e6);
  if (time < 1'000'000'000'000) return fmt::format("{:.4g} ms", value / 1e9);
  return fmt::format("{:.4g} s", value / 1e12);
}

std::string size_text(std::size_t bytes) {
  constexpr const char* kUnits[] = {" B", " KiB", " MiB", " GiB", " TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  return fmt::format("{:.4g}{}", value, kUnits[unit]);
}

double bus_bandwidth(Collective collective, int ranks, Bytes block, Time time) {
  if (time == 0) return 0;
  const double n = ranks;
  const double bytes = static_cast<double>(block.value);
  double moved = bytes;  // broadcast, reduce
  switch (collective) {
    case Collective::kAllReduce:
      moved = 2 * (n - 1) / n * bytes;
      break;
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter:
      moved = (n - 1) * bytes;
      break;
    case Collective::kBarrier:
      return 0;
    default:
      break;
  }
  return moved / (static_cast<double>(time) * 1e-12) / 1e9;
}

}  // namespace tutti::model

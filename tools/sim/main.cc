// tutti-sim predicts how long collectives would take on many ranks.
#include <fmt/format.h>
#include <malloc.h>

#include <chrono>
#include <cstdio>
#include <fstream>

#include "collectives/choice/catalogue.h"
#include "core/costs_file.h"
#include "sim/options.h"

namespace tutti::sim {
namespace {

constexpr int kFewRanks = 64;
constexpr std::size_t kLoopPasses = 64;

struct Row {
  int ranks = 0;
  int hosts = 0;
  std::size_t bytes = 0;
  std::string algorithm;
  bool automatic = false;  ///< the library would choose it
  int lanes = 0;
  Prediction prediction;
  double bandwidth = 0;  ///< bus bandwidth in GB/s, as nccl-tests counts it
  double seconds = 0;    ///< how long simulating took
  std::size_t peak = 0;  ///< the most memory that this process had, in MiB
};

int fail_with(const std::string& text, int code = 1) {
  std::fprintf(stderr, "tutti-sim: %s\n", text.c_str());
  return code;
}

/// Begins to count the process's largest memory anew.
void forget_peak() {
  malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
}

std::size_t peak_mebibytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) / 1024;
  }
  return 0;
}

void print_heading() {
  fmt::print("{:>7} {:>6} {:>9}  {:<21} {:>11} {:>9} {:>5} {:>6} {:<9} {:>8} {:>7} {:>8}\n", "ranks", "hosts", "bytes",
             "algorithm", "time", "busbw", "lanes", "tiles", "method", "ranks", "sim", "memory");
  fmt::print("{:>7} {:>6} {:>9}  {:<21} {:>11} {:>9} {:>5} {:>6} {:<9} {:>8} {:>7} {:>8}\n", "", "", "", "", "", "GB/s",
             "", "", "", "stood", "s", "MiB");
}

void print_row(const Row& row) {
  const Prediction& p = row.prediction;
  const bool large = p.method == SimulationMethod::kTooLarge;
  const std::string tiles = p.passes < p.tiles ? fmt::format("{}/{}", p.passes, p.tiles) : std::to_string(p.tiles);
  fmt::print("{:>7} {:>6} {:>9}  {:<21} {:>11} {:>9} {:>5} {:>6} {:<9} {:>8} {:>7.2f} {:>8}\n", row.ranks, row.hosts,
             model::size_text(row.bytes), row.algorithm + (row.automatic ? " *" : ""),
             large ? "-" : model::time_text(p.time), large ? "-" : fmt::format("{:.4g}", row.bandwidth), row.lanes,
             tiles, name_of(p.method), p.simulated_ranks, row.seconds, row.peak);
  std::fflush(stdout);
}

/// The time of simulating and the memory are the last columns, so that the rest can be compared.
void write_row(std::ofstream& csv, const Row& row) {
  const Prediction& p = row.prediction;
  if (p.method == SimulationMethod::kTooLarge) return;
  csv << fmt::format("{},{},{},{},{},{},{:.6g},{},{},{:.3f},{}\n", row.ranks, row.hosts, row.bytes, row.algorithm,
                     row.automatic ? 1 : 0, p.time, row.bandwidth, name_of(p.method), p.simulated_ranks, row.seconds,
                     row.peak);
}

Row simulate(const Options& options, const model::World& world, int hosts, Bytes bytes, const Choice& choice,
             const Algorithm* automatic) {
  Row row;
  row.ranks = world.machine().ranks;
  row.hosts = hosts;
  row.bytes = bytes.value;
  row.algorithm = choice.algorithm->name;
  row.automatic = choice.algorithm == automatic;
  SimulatedCall call = world.call(choice, bytes, options.root);
  if (options.lanes > 0) call.shape.lanes = std::min(options.lanes, choice.algorithm->max_lanes);
  call.repeated = options.repeated;
  row.lanes = call.shape.lanes;
  SimulationLimits limits;
  limits.symmetry = options.symmetry;
  // In a loop a sender runs ahead as far as its credits reach, which is 16 small messages, before the slowest rank sets
  // the pace.
  if (options.repeated && row.ranks <= kFewRanks) limits.passes = kLoopPasses;
  if (options.passes > 0) limits.passes = static_cast<std::size_t>(options.passes);
  forget_peak();
  const auto begin = std::chrono::steady_clock::now();
  Simulator simulator;
  row.prediction = simulator.simulate(*choice.algorithm, call, world.network(), limits);
  row.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  row.peak = peak_mebibytes();
  row.bandwidth = model::bus_bandwidth(options.collective, row.ranks, bytes, row.prediction.time);
  return row;
}

/// Makes the rows of one number of ranks.
int run_world(const Options& options, int ranks, std::ofstream& csv) {
  model::WorldOptions wanted = options.world;
  wanted.ranks = ranks;
  if (options.per_host > 0) wanted.hosts = (ranks + options.per_host - 1) / options.per_host;
  std::unique_ptr<model::World> world;
  const Status status = model::World::make(wanted, &world);
  if (!status.ok()) return fail_with(status.text(), kBadOptions);
  std::vector<std::string> names = options.algorithms;
  if (names.empty())
    for (const Algorithm& algorithm : catalogue())
      if (algorithm.collective == options.collective) names.emplace_back(algorithm.name);
  for (const std::size_t size : options.sizes) {
    const auto choice_of = [&](const std::string& name) {
      return world->choose_algorithm(options.collective, Bytes{size}, name);
    };
    const Algorithm* const automatic = choice_of("auto").algorithm;
    for (const std::string& name : names) {
      const Choice choice = choice_of(name);
      if (choice.name_refused) continue;  // what the algorithm sends does not fit its messages
      const Row row = simulate(options, *world, wanted.hosts, Bytes{size}, choice, automatic);
      print_row(row);
      if (csv.is_open()) write_row(csv, row);
      csv.flush();
    }
  }
  return 0;
}

int run(const Options& options) {
  if (options.print_costs) {
    std::unique_ptr<model::World> world;
    model::WorldOptions alone = options.world;
    alone.ranks = alone.hosts = 1;
    const Status status = model::World::make(alone, &world);
    if (!status.ok()) return fail_with(status.text(), kBadOptions);
    const Costs& costs = world->network().costs;
    fmt::print("# picoseconds, and picoseconds a KiB\n{}", costs_text(costs));
    return 0;
  }
  std::ofstream csv;
  if (!options.csv_path.empty()) {
    csv.open(options.csv_path);
    csv << "ranks,hosts,bytes,algorithm,auto,time_ps,busbw_gbs,method,simulated_ranks,sim_seconds,peak_mib\n";
    if (!csv.good()) return fail_with(options.csv_path + " cannot be written");
  }
  fmt::print("# {}; {}; * : what the library chooses\n", name_of(options.collective),
             options.repeated ? "from call to call in a loop" : "one call that all ranks begin at once");
  print_heading();
  for (const int ranks : options.ranks) {
    const int code = run_world(options, ranks, csv);
    if (code != 0) return code;
  }
  if (csv.is_open() && !csv.good()) return fail_with(options.csv_path + " cannot be written");
  return 0;
}

}  // namespace
}  // namespace tutti::sim

int main(int argc, char** argv) {
  tutti::sim::Options options;
  const tutti::sim::Parsed parsed = tutti::sim::parse_options(argc, argv, &options);
  return parsed.stop ? parsed.code : tutti::sim::run(options);
}

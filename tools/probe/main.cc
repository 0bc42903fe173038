// tutti-probe measures some calls on this machine and finds the costs with which the library predicts their times, or
// what the network between the hosts of a job costs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "core/costs_file.h"
#include "net/local_network.h"
#include "probe/cost_fit.h"
#include "probe/network_probe.h"
#include "probe/sweeps.h"

namespace tutti::probe {
namespace {

constexpr int kBadOptions = 2;

struct Options {
  std::vector<std::string> sweeps;
  std::string start, out, perf;
  int rounds = 5;
  bool print = false;
  bool hosts = false;
};

int complain(const Status& status, int code) {
  std::fprintf(stderr, "tutti-probe: %s\n", status.text().c_str());
  return code;
}

void tell(const char* when, const Fit& fit) {
  std::printf(
      "%-9s predictions off by %.0f %% (median); choices: median %.2f, 95 %% within %.2f, worst %.2f of the best\n",
      when, 100 * fit.median_error, fit.median_regret, fit.p95_regret, fit.worst_regret);
  std::fflush(stdout);
}

/// Writes all of the file or none of it.
Status write_file(const std::string& path, const std::string& text) {
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error))
    return fail(Code::kInvalidArgument, "{} is no file to be written", path);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  const std::string partial = path + ".part";
  std::ofstream file(partial);
  file << text;
  file.close();
  if (file) std::filesystem::rename(partial, path, error);
  if (file && !error) return {};
  std::filesystem::remove(partial, error);
  return fail(Code::kSystemError, "{} cannot be written", path);
}

Status collect(const Options& options, std::vector<Cell>* cells) {
  if (options.sweeps.empty()) return measure_sweeps(options.perf, cells);
  for (const std::string& path : options.sweeps) TUTTI_TRY(read_sweep(path, cells));
  return {};
}

/// Prints the text, or writes it to the file. Returns the exit code.
int deliver(const Options& options, const std::string& out, const std::string& text) {
  if (options.print) return std::fputs(text.c_str(), stdout) < 0 ? 1 : 0;
  if (const Status written = write_file(out, text); !written.ok()) return complain(written, 1);
  std::printf("written: %s\n", out.c_str());
  return 0;
}

Status check_out(const Options& options, const std::string& out) {
  if (!out.empty() || options.print) return {};
  return fail(Code::kInvalidArgument, "neither HOME nor XDG_CACHE_HOME is set: name a file with --out");
}

/// What processors take for a message is in the costs in force; the rest of its way is the network's latency.
int probe_network(const Options& options) {
  Settings settings;
  Costs costs;
  Status known = read_settings(&settings);
  const LocalNetwork network = local_network(settings);
  if (known.ok())
    known = options.start.empty() ? costs_in_force(settings, network, &costs) : read_costs(options.start, &costs);
  if (known.ok() && settings.transport == TransportKind::kTcp)
    known = fail(Code::kInvalidArgument, "TUTTI_TRANSPORT=tcp hides which ranks share a host: unset it for --hosts");
  if (!known.ok()) return complain(known, kBadOptions);
  const std::string out = options.out.empty() ? network_costs_path(network) : options.out;
  NetworkResult measured;
  if (const Status done = measure_network(&measured); !done.ok()) return complain(done, 1);
  if (measured.rank != 0) return 0;
  if (network.name.empty() && options.out.empty() && !options.print)
    return complain(fail(Code::kInvalidArgument, "rank 0 has no network but the loopback: name a file with --out"),
                    kBadOptions);
  if (const Status place = check_out(options, out); !place.ok()) return complain(place, kBadOptions);
  const Time overheads = costs.tcp.send_overhead + costs.tcp.recv_overhead;
  costs.network_latency = std::clamp<Time>(measured.one_way - overheads, 0, kLargestCost);
  costs.network_wire_kib = std::min(measured.wire_kib, kLargestCost);
  const double gigabits = 8192.0 / static_cast<double>(measured.wire_kib) * 1000;
  const std::string what =
      fmt::format("{} hosts, {} ranks; one way {:.1f} us, {:.2f} Gbit/s each way by {} pairs of ranks", measured.hosts,
                  measured.ranks, static_cast<double>(measured.one_way) / 1e6, gigabits, measured.pairs);
  if (!options.print) std::printf("%s\n", what.c_str());
  const bool alone = options.out.empty();  // a file that TUTTI_COSTS names has all costs
  const std::string text =
      fmt::format("network.latency {}\nnetwork.wire_kib {}\n", costs.network_latency, costs.network_wire_kib);
  return deliver(options, out, fmt::format("# {}\n{}", what, alone ? text : costs_text(costs)));
}

int probe_machine(const Options& options) {
  Costs costs;
  Settings settings;
  settings.costs = options.start.empty() ? "builtin" : options.start;
  if (const Status known = costs_in_force(settings, {}, &costs); !known.ok()) return complain(known, kBadOptions);
  const std::string out = options.out.empty() ? costs_cache_path() : options.out;
  if (const Status place = check_out(options, out); !place.ok()) return complain(place, kBadOptions);
  std::vector<Cell> cells;
  if (const Status collected = collect(options, &cells); !collected.ok()) return complain(collected, 1);
  if (cells.empty()) return complain(fail(Code::kInvalidArgument, "these sweeps have no cell to learn from"), 1);
  CostFit fit(cells);
  std::printf("%zu cells, %s\n", cells.size(), machine_description().c_str());
  tell("at first:", fit.quality(costs));
  costs = fit.improve(costs, options.rounds);
  tell("now:", fit.quality(costs));
  const std::string text = fmt::format("# {}; {} cells\n{}", machine_description(), cells.size(), costs_text(costs));
  return deliver(options, out, text);
}

}  // namespace
}  // namespace tutti::probe

int main(int argc, char** argv) {
  tutti::probe::Options options;
  CLI::App app{
      "Measures some calls on this machine with tutti-perf --sweep and finds the costs with which Tutti predicts "
      "their\n"
      "times. Communicators whose rank 0 is on such a machine choose algorithms by them (TUTTI_COSTS=auto).\n"
      "With --hosts, started by a launcher on two hosts or more (mpirun, srun, torchrun), it measures the latency and\n"
      "the rate between them instead. Communicators whose rank 0 is on such a network choose by these.",
      "tutti-probe"};
  app.add_option("sweep", options.sweeps, "files that tutti-perf --sweep -J wrote, instead of measuring now");
  CLI::Option* const hosts =
      app.add_flag("--hosts", options.hosts, "measure the network between the hosts of this job");
  app.get_option("sweep")->excludes(hosts);
  app.add_option("--start", options.start, "costs to begin with (default: the built-in ones)")
      ->check(CLI::ExistingFile);
  app.add_option("--out", options.out, "file to write (default: in the user's cache folder, where the library looks)");
  app.add_flag("--print", options.print, "print the costs instead of writing them");
  app.add_option("--rounds", options.rounds,
                 "how often each cost may change (default 5; 0: only tell how good they are)")
      ->check(CLI::Range(0, 100));
  app.get_option("--rounds")->excludes(hosts);
  app.add_option("--perf", options.perf, "the program tutti-perf (default: the one beside this program)");
  app.get_option("--perf")->excludes(hosts);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::Error& error) {
    std::fprintf(stderr, "tutti-probe: %s\nRun tutti-probe --help for the options.\n", error.what());
    return tutti::probe::kBadOptions;
  }
  return options.hosts ? tutti::probe::probe_network(options) : tutti::probe::probe_machine(options);
}

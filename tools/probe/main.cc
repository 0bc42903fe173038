// tutti-probe measures some calls on this machine and finds the costs with which the library predicts their times.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "core/costs_file.h"
#include "probe/cost_fit.h"
#include "probe/sweeps.h"

namespace tutti::probe {
namespace {

constexpr int kBadOptions = 2;

struct Options {
  std::vector<std::string> sweeps;
  std::string start, out, perf;
  int rounds = 5;
  bool print = false;
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

int run(const Options& options) {
  Costs costs;
  Settings settings;
  settings.costs = options.start.empty() ? "builtin" : options.start;
  if (const Status known = costs_in_force(settings, &costs); !known.ok()) return complain(known, kBadOptions);
  const std::string out = options.out.empty() ? costs_cache_path() : options.out;
  if (out.empty() && !options.print)
    return complain(fail(Code::kInvalidArgument, "neither HOME nor XDG_CACHE_HOME is set: name a file with --out"),
                    kBadOptions);
  std::vector<Cell> cells;
  if (const Status collected = collect(options, &cells); !collected.ok()) return complain(collected, 1);
  if (cells.empty()) return complain(fail(Code::kInvalidArgument, "these sweeps have no cell to learn from"), 1);
  CostFit fit(cells);
  std::printf("%zu cells, %s\n", cells.size(), machine_description().c_str());
  tell("at first:", fit.quality(costs));
  costs = fit.improve(costs, options.rounds);
  tell("now:", fit.quality(costs));
  const std::string text = fmt::format("# {}; {} cells\n{}", machine_description(), cells.size(), costs_text(costs));
  if (options.print) return std::fputs(text.c_str(), stdout) < 0 ? 1 : 0;
  if (const Status written = write_file(out, text); !written.ok()) return complain(written, 1);
  std::printf("written: %s\n", out.c_str());
  return 0;
}

}  // namespace
}  // namespace tutti::probe

int main(int argc, char** argv) {
  tutti::probe::Options options;
  CLI::App app{
      "Measures some calls on this machine with tutti-perf --sweep and finds the costs with which Tutti predicts "
      "their\n"
      "times. Communicators whose rank 0 is on such a machine choose algorithms by them (TUTTI_COSTS=auto).",
      "tutti-probe"};
  app.add_option("sweep", options.sweeps, "files that tutti-perf --sweep -J wrote, instead of measuring now");
  app.add_option("--start", options.start, "costs to begin with (default: the built-in ones)")
      ->check(CLI::ExistingFile);
  app.add_option("--out", options.out, "file to write (default: in the user's cache folder, where the library looks)");
  app.add_flag("--print", options.print, "print the costs instead of writing them");
  app.add_option("--rounds", options.rounds,
                 "how often each cost may change (default 5; 0: only tell how good they are)")
      ->check(CLI::Range(0, 100));
  app.add_option("--perf", options.perf, "the program tutti-perf (default: the one beside this program)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::Error& error) {
    std::fprintf(stderr, "tutti-probe: %s\nRun tutti-probe --help for the options.\n", error.what());
    return tutti::probe::kBadOptions;
  }
  return tutti::probe::run(options);
}

#include "sim/options.h"

#include <tutti/tutti.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "collectives/choice/catalogue.h"

namespace tutti::sim {
namespace {

/// The options that have to be parsed further, as typed.
struct Typed {
  std::string collective, ranks, bytes = "1M", algorithms = "all", message;
  bool version = false, one_by_one = false;
};

std::size_t size_or_throw(const char* option, const std::string& text) {
  std::size_t bytes = 0;
  if (model::parse_size(text, &bytes)) return bytes;
  throw CLI::ValidationError(option, "'" + text + "' is not a size (examples: 8, 64K, 1.5M, 2G)");
}

void declare_network(CLI::App* app, Options* options) {
  app->add_option("--hosts", options->world.hosts, "hosts; neighbouring ranks share one (default 1)");
  app->add_option("--per-host", options->per_host, "ranks of a host, instead of --hosts")
      ->check(CLI::Range(1, 1 << 20))
      ->excludes("--hosts");
  app->add_option("--transport", options->world.transport,
                  "shm: shared memory within hosts (default); tcp: between all ranks");
  app->add_option("--costs", options->world.costs,
                  "file of costs; machine: those that the library uses here (default: the built-in ones)");
  app->add_option("--cores", options->world.cores, "cores of a host (default: those of the costs)")
      ->check(CLI::Range(1, 1 << 20));
  app->add_option("--latency", options->world.latency, "between hosts: 500ns, 5us");
  app->add_option("--bandwidth", options->world.bandwidth, "of a host's link, each way: 800mbit, 10gbit");
  app->add_flag("--one-kernel", options->world.same_boot_id, "all hosts are one machine's and share its cores");
  app->add_option("--hosts-per-leaf", options->world.hosts_per_leaf,
                  "a fat tree: hosts of a leaf switch (default: one switch for all)")
      ->check(CLI::Range(1, 1 << 20));
  app->add_option("--oversubscription", options->world.oversubscription,
                  "of a leaf's way up: 4 means a quarter of its hosts' links (default 1)");
  app->add_option("--hosts-on-leaves", options->world.hosts_on_leaves,
                  "filled: leaf after leaf (default); dealt: to the leaves in turn; shuffled: at random, always alike");
  app->add_option("--slow-host", options->world.slow_hosts,
                  "HOST:FACTOR, or a list: processors and memory of the host take so many times as long");
  app->add_option("--slow-link", options->world.slow_links,
                  "HOST:FACTOR, or a list: the host's link carries so many times less, each way");
}

void declare(CLI::App* app, Typed* typed, Options* options) {
  app->option_defaults()->take_last();
  app->add_option("collective", typed->collective, model::collective_names());
  app->add_option("--ranks", typed->ranks, "ranks, or a list: 8,64,512");
  app->add_option("--bytes", typed->bytes,
                  "the call's count in bytes, of one block where there is one a rank, or a list (K, M, G; default 1M)");
  app->add_option("--algo", typed->algorithms, "algorithms, a list, or all (default)");
  app->add_option("--root", options->root, "root of broadcast, reduce, gather, scatter (default 0)")
      ->check(CLI::Range(0, 1 << 22));
  app->add_option("--lanes", options->lanes, "lanes (default: what the library chooses)")->check(CLI::Range(1, 32));
  app->add_option("--max-message", typed->message,
                  "largest message (default as the library's: 512K if all ranks are connected by tcp, else 256K)");
  declare_network(app, options);
  app->add_flag("--loop", options->repeated, "the time from call to call in a loop, instead of that of one call");
  app->add_option("--passes", options->passes,
                  "passes of the program to simulate (default 8); others go at the pace of these")
      ->check(CLI::Range(4, 1 << 20));
  app->add_flag("--one-by-one", typed->one_by_one, "simulate every rank, also where some could stand for all");
  app->add_option("--csv", options->csv_path, "write the rows to this file, too");
  app->add_flag("--print-costs", options->print_costs, "print the costs and end");
  app->add_flag("--version", typed->version, "print the library's version");
}

void set_algorithms(const Typed& typed, Options* options) {
  if (typed.algorithms == "all") return;
  for (const std::string& name : model::split_list(typed.algorithms)) {
    if (name != "auto" && find_algorithm(options->collective, name) == nullptr) {
      throw CLI::ValidationError("--algo", std::string(name_of(options->collective)) + " does not offer '" + name +
                                               "'; it offers " + algorithm_names(options->collective) + ", and auto");
    }
    options->algorithms.push_back(name);
  }
}

void set_options(const Typed& typed, Options* options) {
  options->collective = model::find_collective(typed.collective);
  if (options->collective == Collective::kNone) {
    const std::string names = "one of: " + model::collective_names();
    throw CLI::ValidationError(
        "collective", typed.collective.empty() ? "name " + names : "'" + typed.collective + "' is none; " + names);
  }
  if (typed.ranks.empty()) throw CLI::ValidationError("--ranks", "say how many ranks there are");
  for (const std::string& word : model::split_list(typed.ranks)) {
    std::size_t ranks = 0;
    if (word.find('.') != std::string::npos || !model::parse_size(word, &ranks) || ranks < 1 || ranks > 1 << 22) {
      throw CLI::ValidationError("--ranks", "'" + word + "' is no number of ranks (1 to 4M, or a list)");
    }
    options->ranks.push_back(static_cast<int>(ranks));
    if (static_cast<int>(ranks) <= options->root) {
      throw CLI::ValidationError("--root", "there is no rank " + std::to_string(options->root) + " of " + word);
    }
  }
  const bool barrier = options->collective == Collective::kBarrier;
  for (const std::string& word : model::split_list(barrier ? "0" : typed.bytes)) {
    options->sizes.push_back(size_or_throw("--bytes", word));
  }
  if (!typed.message.empty()) {
    options->world.max_message = size_or_throw("--max-message", typed.message);
    if (options->world.max_message < 64 || options->world.max_message > 1 << 30)
      throw CLI::ValidationError("--max-message", "must be between 64 and 1G");
  }
  options->symmetry = !typed.one_by_one;
  set_algorithms(typed, options);
}

}  // namespace

Parsed parse_options(int argc, char** argv, Options* options) {
  CLI::App app{
      "Simulates collectives of Tutti: the library's own schedules, on as many ranks as wanted, with the costs of\n"
      "processors, shared memory and links. Exit code: 0 all right, 1 an error, 2 bad options.",
      "tutti-sim"};
  Typed typed;
  declare(&app, &typed, options);
  try {
    app.parse(argc, argv);
    if (typed.version) {
      std::printf("tutti %d.%d.%d\n", TUTTI_MAJOR, TUTTI_MINOR, TUTTI_PATCH);
      return {true, 0};
    }
    if (!options->print_costs) set_options(typed, options);
  } catch (const CLI::Success& help) {
    return {true, app.exit(help)};
  } catch (const CLI::Error& error) {
    std::fprintf(stderr, "tutti-sim: %s\nRun tutti-sim --help for the options.\n", error.what());
    return {true, kBadOptions};
  }
  return {};
}

}  // namespace tutti::sim

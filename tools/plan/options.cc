#include "plan/options.h"

#include <tutti/tutti.h>

#include <CLI/CLI.hpp>
#include <cstdio>

namespace tutti::plan {
namespace {

/// The options that have to be parsed further, as typed.
struct Typed {
  std::string collective, bytes = "1M", tile;
  bool version = false;
};

std::size_t size_or_throw(const char* option, const std::string& text) {
  std::size_t bytes = 0;
  if (model::parse_size(text, &bytes)) return bytes;
  throw CLI::ValidationError(option, "'" + text + "' is not a size (examples: 8, 64K, 1.5M, 2G)");
}

void declare(CLI::App* app, Typed* typed, Options* options) {
  app->option_defaults()->take_last();
  app->add_option("collective", typed->collective, model::collective_names());
  app->add_option("--ranks", options->world.ranks, "ranks")->check(CLI::Range(1, 1 << 22));
  app->add_option("--bytes", typed->bytes,
                  "the call's count in bytes, of one block where there is one a rank (K, M, G; default 1M)");
  app->add_option("--algo", options->algorithm, "algorithm (default: what the library chooses)");
  app->add_option("--hosts", options->world.hosts, "hosts; neighbouring ranks share one (default 1)");
  app->add_option("--transport", options->world.transport,
                  "shm: shared memory within hosts (default); tcp: between all ranks");
  app->add_option("--root", options->root, "root of broadcast, reduce, gather, scatter (default 0)");
  app->add_option("--lanes", options->lanes, "lanes (default: what the library chooses)")->check(CLI::Range(1, 32));
  app->add_option("--tile", typed->tile, "bytes of a block worked on in one pass (default: what the library chooses)");
  app->add_option("--rank", options->rank, "print the schedule of this rank");
  app->add_flag("--grid", options->grid,
                "print the steps of all ranks beside one another (up to 64, lane 0), and only that");
  app->add_option("--costs", options->world.costs,
                  "file of costs; machine: those that the library uses here (default: the built-in ones)");
  app->add_option("--cores", options->world.cores, "cores of a host (default: those of the costs)")
      ->check(CLI::Range(1, 1 << 20));
  app->add_option("--svg", options->svg_path, "draw the schedule into this file");
  app->add_option("--png", options->png_path, "the same as PNG (needs rsvg-convert, Debian's librsvg2-bin)");
  app->add_option("--tiles", options->tiles, "passes of the program to draw (default 1)")->check(CLI::Range(1, 8));
  app->add_flag("--even", options->even, "draw what comes before what: all steps equally long, all messages, too");
  app->add_option("--title", options->title, "title of the picture");
  app->add_flag("--version", typed->version, "print the library's version");
}

void set_options(const Typed& typed, Options* options) {
  options->collective = model::find_collective(typed.collective);
  if (options->collective == Collective::kNone) {
    const std::string names = "one of: " + model::collective_names();
    throw CLI::ValidationError(
        "collective", typed.collective.empty() ? "name " + names : "'" + typed.collective + "' is none; " + names);
  }
  if (options->world.ranks == 0) throw CLI::ValidationError("--ranks", "say how many ranks there are");
  options->bytes = Bytes{options->collective == Collective::kBarrier ? 0 : size_or_throw("--bytes", typed.bytes)};
  if (!typed.tile.empty()) options->tile = Bytes{size_or_throw("--tile", typed.tile)};
  const auto check_rank = [&](const char* option, int rank) {
    if (rank >= -1 && rank < options->world.ranks) return;
    throw CLI::ValidationError(option, "there is no rank " + std::to_string(rank) + ", there are " +
                                           std::to_string(options->world.ranks) + " ranks");
  };
  check_rank("--rank", options->rank);
  check_rank("--root", options->root);
  if (options->root < 0) throw CLI::ValidationError("--root", "ranks count from 0");
  const bool draws = !options->svg_path.empty() || !options->png_path.empty();
  if (options->grid && options->world.ranks > 64) throw CLI::ValidationError("--grid", "more than 64 ranks");
  if (draws && options->world.ranks > 64) throw CLI::ValidationError("--svg", "more than 64 ranks are no picture");
}

}  // namespace

Parsed parse_options(int argc, char** argv, Options* options) {
  CLI::App app{
      "Tells which algorithm Tutti chooses for a call and what the simulator predicts of all that could serve it,\n"
      "prints the schedule of a rank, and draws the schedules of all.\n"
      "Exit code: 0 all right, 1 an error, 2 bad options.",
      "tutti-plan"};
  Typed typed;
  declare(&app, &typed, options);
  try {
    app.parse(argc, argv);
    if (typed.version) {
      std::printf("tutti %d.%d.%d\n", TUTTI_MAJOR, TUTTI_MINOR, TUTTI_PATCH);
      return {true, 0};
    }
    set_options(typed, options);
  } catch (const CLI::Success& help) {
    return {true, app.exit(help)};
  } catch (const CLI::Error& error) {
    std::fprintf(stderr, "tutti-plan: %s\nRun tutti-plan --help for the options.\n", error.what());
    return {true, kBadOptions};
  }
  return {};
}

}  // namespace tutti::plan

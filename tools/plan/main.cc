// tutti-plan shows which algorithm serves a call, why, and what its schedule looks like.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "collectives/choice/catalogue.h"
#include "collectives/choice/cost_model.h"
#include "plan/candidates.h"
#include "plan/options.h"
#include "schedule/drawing.h"
#include "schedule/simulator/picture.h"

namespace tutti::plan {
namespace {

int fail_with(const std::string& text) {
  std::fprintf(stderr, "tutti-plan: %s\n", text.c_str());
  return 1;
}

std::string what_of(const Options& options) {
  std::string text = name_of(options.collective);
  if (options.collective != Collective::kBarrier) text += " of " + model::size_text(options.bytes.value);
  if (is_rooted(options.collective)) text += fmt::format(", root {}", options.root);
  return text;
}

std::string shape_text(const SimulatedCall& call, std::size_t tiles) {
  const std::string lanes = fmt::format("{} lane{}", call.shape.lanes, call.shape.lanes == 1 ? "" : "s");
  if (call.block.value == 0) return lanes;
  return tiles == 1 ? lanes + ", one tile"
                    : fmt::format("{}, {} tiles of {}", lanes, tiles, model::size_text(call.tile.value));
}

bool is_too_large(const Candidate& candidate) { return candidate.prediction.method == SimulationMethod::kTooLarge; }

constexpr const char* kByTime =
    "of the algorithms within {} % of the shortest predicted time{}, the one that thresholds name, else the first of "
    "the catalogue, where the simpler ones come first";
constexpr const char* kByThresholds =
    "thresholds of ranks and bytes; predicted times decide up to 8 ranks, on one host or where the costs have the "
    "network's rate";

/// Prints why the library runs what it runs.
void explain(const Options& options, const Choice& choice, const Candidate& chosen,
             const std::vector<Candidate>& candidates, const model::World& world) {
  fmt::print("{}: {} ({}).\n", options.algorithm.empty() ? "Chosen" : "Asked for", choice.algorithm->name,
             shape_text(chosen.call, chosen.prediction.tiles));
  const char* const in_a_loop = is_rooted(choice.algorithm->collective) ? "" : " in a loop";
  const std::string why =
      world.is_modelled() ? fmt::format(kByTime, CostModel::margin(world.machine()), in_a_loop) : kByThresholds;
  if (options.algorithm.empty()) fmt::print("Why: {}.\n", why);
  if (is_too_large(chosen)) return;
  fmt::print("Predicted: {} for one call, {} from call to call in a loop", model::time_text(chosen.prediction.time),
             model::time_text(chosen.loop));
  const auto other =
      std::ranges::find_if(candidates, [&](const Candidate& c) { return c.algorithm != choice.algorithm; });
  if (other != candidates.end() && !is_too_large(*other) && chosen.compared > 0) {
    fmt::print("; {} would take {}{}, {:.2f} times as long", other->algorithm->name, model::time_text(other->compared),
               in_a_loop, static_cast<double>(other->compared) / static_cast<double>(chosen.compared));
  }
  fmt::print(".\n");
  if (options.bytes.value == 0) return;
  const Parts parts = parts_of(chosen, world);
  fmt::print("Of the one call, {} are for steps and messages, however small; the rest is for the bytes.",
             model::time_text(parts.without_bytes));
  if (chosen.prediction.time - parts.without_handovers > chosen.prediction.time / 50) {
    fmt::print(" With a core for each rank it would take {} ({} cores here).",
               model::time_text(parts.without_handovers), world.network().costs.cores);
  }
  fmt::print("\n");
}

void print_candidates(const std::vector<Candidate>& candidates, const Choice& choice) {
  fmt::print("\n{:<22}{:>12}{:>7}{:>12}{:>10}{:>7}{:>7}  {}\n", "algorithm", "in a loop", "ratio", "one call",
             "messages", "lanes", "tiles", "method");
  const Time best = candidates.empty() ? 1 : std::max<Time>(candidates.front().compared, 1);
  for (const Candidate& candidate : candidates) {
    const bool large = is_too_large(candidate);
    fmt::print("{:<22}{:>12}{:>7}{:>12}{:>10}{:>7}{:>7}  {}{}\n", candidate.algorithm->name,
               large ? "-" : model::time_text(candidate.loop),
               large ? "" : fmt::format("{:.2f}", static_cast<double>(candidate.compared) / static_cast<double>(best)),
               large ? "-" : model::time_text(candidate.prediction.time),
               candidate.messages == 0 ? "-" : std::to_string(candidate.messages), candidate.call.shape.lanes,
               candidate.prediction.tiles, name_of(candidate.prediction.method),
               candidate.algorithm == choice.algorithm ? "  <-" : "");
  }
  fmt::print("(messages: those of one tile that the busiest rank sends)\n");
}

bool write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file.good();
}

/// Makes a PNG. rsvg-convert reads the picture from its standard input.
std::string convert(const std::string& svg, const std::string& path) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return "no pipe";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[0], 0);
  std::string program = "rsvg-convert", zoom = "--zoom=1.5", format = "--format=png", output = "--output=" + path;
  char* const arguments[] = {program.data(), zoom.data(), format.data(), output.data(), nullptr};
  char* const environment[] = {nullptr};  // it needs none
  pid_t child = 0;
  const int error = posix_spawnp(&child, program.c_str(), &actions, nullptr, arguments, environment);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[0]);
  if (error != 0) {
    close(ends[1]);
    return "rsvg-convert does not start: it makes the PNG (Debian: librsvg2-bin)";
  }
  std::FILE* const pipe = fdopen(ends[1], "w");
  std::fwrite(svg.data(), 1, svg.size(), pipe);
  std::fclose(pipe);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? "" : "rsvg-convert could not write " + path;
}

int draw(const Options& options, const Choice& choice, const Candidate& chosen, const model::World& world) {
  SimulatedCall call = chosen.call;
  const std::size_t drawn = std::min(static_cast<std::size_t>(options.tiles), chosen.prediction.tiles);
  call.block = Bytes{std::min(call.block.value, call.tile.value * drawn)};
  Trace trace;
  Simulator simulator;
  const Network even = even_network(world.machine().network);
  simulator.simulate(*choice.algorithm, call, options.even ? even : world.network(), {}, &trace);
  PictureText text;
  text.title = options.title.empty() ? fmt::format("{}, {}", what_of(options), choice.algorithm->name) : options.title;
  text.caption = world.text();
  if (drawn < chosen.prediction.tiles) {
    text.caption += drawn == 1 ? fmt::format("; the first of {} tiles", chosen.prediction.tiles)
                               : fmt::format("; the first {} of {} tiles", drawn, chosen.prediction.tiles);
  }
  text.caption += options.even ? "; all steps drawn equally long" : "; predicted times";
  text.true_times = !options.even;
  const std::string svg = to_svg(*choice.algorithm, call, trace, text);
  if (!options.svg_path.empty() && !write_file(options.svg_path, svg))
    return fail_with(options.svg_path + " cannot be written");
  if (options.png_path.empty()) return 0;
  const std::string problem = convert(svg, options.png_path);
  return problem.empty() ? 0 : fail_with(problem);
}

int print_grid(const Options& options, const Choice& choice, const model::World& world) {
  Shape shape = world.call(choice, options.bytes, options.root).shape;
  if (options.lanes > 0) shape.lanes = std::min(options.lanes, choice.algorithm->max_lanes);
  std::vector<Schedule> schedules;
  for (shape.rank = 0; shape.rank < shape.ranks; ++shape.rank)
    schedules.push_back(build_schedule(*choice.algorithm, shape));
  fmt::print("{}", to_grid(schedules));
  return 0;
}

int run(const Options& options) {
  std::unique_ptr<model::World> world;
  const Status status = model::World::make(options.world, &world);
  if (!status.ok()) {
    fail_with(status.text());
    return kBadOptions;
  }
  const Choice choice = world->choose_algorithm(options.collective, options.bytes, options.algorithm, options.tile);
  if (choice.name_refused || choice.algorithm == nullptr) {
    fail_with(fmt::format("{} does not offer '{}' here; it offers {}", name_of(options.collective), options.algorithm,
                          algorithm_names(options.collective)));
    return kBadOptions;
  }
  if (options.grid) return print_grid(options, choice, *world);
  const Candidate chosen = candidate_of(choice, options.bytes, options.root, *world, options.lanes, options.tile);
  const std::vector<Candidate> candidates =
      candidates_of(options.collective, options.bytes, options.root, *world, options.lanes, options.tile);
  fmt::print("{}: {}.\n", what_of(options), world->text());
  explain(options, choice, chosen, candidates, *world);
  print_candidates(candidates, choice);
  if (options.rank >= 0) {
    Shape shape = chosen.call.shape;
    shape.rank = options.rank;
    fmt::print("\n{}", to_text(build_schedule(*choice.algorithm, shape)));
  }
  if (options.svg_path.empty() && options.png_path.empty()) return 0;
  std::fflush(stdout);
  return draw(options, choice, chosen, *world);
}

}  // namespace
}  // namespace tutti::plan

int main(int argc, char** argv) {
  tutti::plan::Options options;
  const tutti::plan::Parsed parsed = tutti::plan::parse_options(argc, argv, &options);
  return parsed.stop ? parsed.code : tutti::plan::run(options);
}

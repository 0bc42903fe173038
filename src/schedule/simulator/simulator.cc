#include "schedule/simulator/simulator.h"

#include <algorithm>
#include <limits>

#include "schedule/simulator/simulation.h"

namespace tutti {
namespace {

/// So many steps are simulated within seconds: a program with more passes than fit is simulated for fewer of them.
constexpr std::uint64_t kComfortableSteps = 5'000'000;
/// A call with so many tiles or more repeats if its tiles do. One with fewer must repeat as a whole.
constexpr std::size_t kManyTiles = 9;
static_assert(kManyTiles > Rhythm::kLongestPeriod, "a period of tiles has no short last one in it");

std::uint64_t steps_of(const Algorithm& algorithm, Shape shape, std::int32_t ranks) {
  std::uint64_t steps = 0;
  for (shape.rank = 0; shape.rank < ranks; ++shape.rank) steps += algorithm.steps(shape);
  return steps * static_cast<std::uint64_t>(shape.lanes);
}

/// How many passes to simulate, of a call with so many tiles.
std::size_t passes_for(const SimulatedCall& call, std::size_t tiles, std::uint64_t steps, std::size_t most) {
  if (tiles == 1 && !call.repeated) return 1;
  const std::uint64_t comfortable = steps == 0 ? most : kComfortableSteps / steps;
  const std::size_t passes = std::clamp<std::size_t>(comfortable, 2, std::max<std::size_t>(most, 4));
  if (!call.repeated) return std::min(tiles, passes);
  if (tiles >= passes) return passes;
  return std::max<std::size_t>(passes / tiles, 2) * tiles;
}

/// No more than a quarter of the longest time: a sum of some is still a time.
Time saturating_product(Time a, Time b) {
  Time product = 0;
  constexpr Time kMost = std::numeric_limits<Time>::max() / 4;
  return __builtin_mul_overflow(a, b, &product) ? kMost : std::min(product, kMost);
}

/// Whether whole calls of a loop are simulated, and not only tiles of the first one.
bool is_loop(const SimulationPlan& plan) { return plan.call.repeated && plan.passes >= 2 * plan.tiles; }

/// The time of so many bytes of each block if a whole tile takes `pace`. A short last tile counts by its bytes.
Time time_at_pace(std::size_t bytes, std::size_t tile, Time pace) {
  const Time whole = saturating_product(static_cast<Time>(bytes / tile), pace);
  return whole + saturating_product(static_cast<Time>(bytes % tile * 1024 / tile), pace) / 1024;
}

/// The time of a call with `tiles` tiles, from the ends of the passes that were simulated.
Time time_of_call(const Simulation& simulation, const SimulationPlan& plan) {
  const std::size_t passes = simulation.passes();
  const std::size_t tile = std::max<std::size_t>(plan.call.tile.value, 1);
  if (passes < plan.passes && simulation.rhythm().repeats()) {
    const Time pace = simulation.rhythm().pace();
    return plan.round == plan.tiles ? pace : time_at_pace(plan.call.block.value, tile, pace);
  }
  const auto end = [&](std::size_t count) { return count == 0 ? 0 : simulation.pass_end(count - 1); };
  const std::size_t calls = passes / plan.tiles;  // fewer than planned if they were enough
  if (is_loop(plan) && calls >= 2) {
    const std::size_t before = calls / 2;
    return (end(calls * plan.tiles) - end(before * plan.tiles)) / static_cast<Time>(calls - before);
  }
  if (passes == plan.tiles && !plan.call.repeated) return end(passes);
  // Where ranks run ahead, the last passes end sooner after one another than wires could carry more of them.
  const Time pace = std::max((end(passes) - end(passes / 2)) / static_cast<Time>(passes - passes / 2),
                             simulation.busiest_wire() / static_cast<Time>(passes));
  const std::size_t done = plan.call.repeated ? 0 : passes * tile;
  return (plan.call.repeated ? 0 : end(passes)) + time_at_pace(plan.call.block.value - done, tile, pace);
}

}  // namespace

const char* name_of(SimulationMethod method) {
  switch (method) {
    case SimulationMethod::kEvents:
      return "events";
    case SimulationMethod::kSymmetry:
      return "symmetry";
    case SimulationMethod::kTooLarge:
      return "too large";
    case SimulationMethod::kTooSlow:
      return "too slow";
  }
  return "unknown";
}

Simulator::Simulator() : simulation_(std::make_unique<Simulation>()) {}
Simulator::~Simulator() = default;
Simulator::Simulator(Simulator&&) noexcept = default;
Simulator& Simulator::operator=(Simulator&&) noexcept = default;

std::span<const Time> Simulator::finish() const { return simulation_->finish(); }

Prediction Simulator::simulate(const Algorithm& algorithm, const SimulatedCall& call, const Network& network,
                               const SimulationLimits& limits, Trace* trace) {
  SimulationPlan plan;
  plan.algorithm = &algorithm;
  plan.call = call;
  plan.network = network;
  const std::int32_t ranks = call.shape.ranks;
  plan.period = limits.symmetry && trace == nullptr ? symmetry_period(algorithm, call.shape, network) : ranks;
  Prediction prediction;
  prediction.method = plan.period < ranks ? SimulationMethod::kSymmetry : SimulationMethod::kEvents;
  prediction.simulated_ranks = plan.period;
  const std::uint64_t steps = steps_of(algorithm, call.shape, plan.period);
  plan.tiles = call.block.value == 0 ? 1 : div_up(call.block.value, std::max<std::size_t>(call.tile.value, 1));
  plan.passes = passes_for(call, plan.tiles, steps, limits.passes);
  plan.most_steps = limits.steps;
  if (limits.until_repeats && call.repeated) plan.round = is_loop(plan) && plan.tiles < kManyTiles ? plan.tiles : 1;
  plan.enough_steps = limits.enough_steps;
  plan.longest = limits.longest;
  prediction.passes = plan.passes;
  prediction.tiles = plan.tiles;
  const Simulation::End end = steps > limits.steps ? Simulation::End::kTooManySteps : simulation_->run(plan, trace);
  if (end != Simulation::End::kDone) {
    prediction.method = end == Simulation::End::kTooSlow ? SimulationMethod::kTooSlow : SimulationMethod::kTooLarge;
    return prediction;
  }
  prediction.passes = simulation_->passes();
  prediction.time = time_of_call(*simulation_, plan);
  prediction.steps = simulation_->steps();
  return prediction;
}

}  // namespace tutti

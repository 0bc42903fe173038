#include "plan/candidates.h"

#include <algorithm>

#include "collectives/choice/catalogue.h"
#include "schedule/tiling.h"

namespace tutti::plan {
namespace {

/// Messages of longer programs are not counted, because that would take longer than predicting their time.
constexpr std::uint64_t kCountedSteps = 20'000'000;

/// How many calls a loop has. A sender runs ahead as far as its credits reach, which is 16 small messages, before the
/// slowest rank sets the pace. Loops of more ranks than kFewRanks are shorter, as they wait for one another sooner.
constexpr std::size_t kLoopPasses = 64;
constexpr std::int32_t kFewRanks = 64;

/// How many messages the rank sends that sends most; 0 if they are not counted.
std::uint64_t most_messages(const Algorithm& algorithm, Shape shape) {
  std::uint64_t most = 0;
  std::uint64_t counted = 0;
  for (shape.rank = 0; shape.rank < shape.ranks; ++shape.rank) {
    std::uint64_t messages = 0;
    const std::uint32_t steps = algorithm.steps(shape);
    counted += steps;
    if (counted > kCountedSteps) return 0;
    for (std::uint32_t lane = 0; lane < static_cast<std::uint32_t>(shape.lanes); ++lane)
      for (std::uint32_t i = 0; i < steps; ++i) messages += algorithm.step(shape, lane, i).has(kSend) ? 1 : 0;
    most = std::max(most, messages);
  }
  return most;
}

}  // namespace

Candidate candidate_of(const Choice& choice, Bytes bytes, int root, const model::World& world, int lanes, Bytes tile) {
  Candidate candidate;
  candidate.algorithm = choice.algorithm;
  candidate.call = world.call(choice, bytes, root);
  if (lanes > 0) candidate.call.shape.lanes = std::min(lanes, choice.algorithm->max_lanes);
  if (tile.value > 0)  // choose() cuts it to what messages hold
    candidate.call.tile =
        choose(choice.algorithm->collective, bytes, world.machine(), *choice.algorithm, tile, world.hosts()).tile_bytes;
  Simulator simulator;
  candidate.prediction = simulator.simulate(*choice.algorithm, candidate.call, world.network());
  SimulatedCall loop = candidate.call;
  loop.repeated = true;
  SimulationLimits limits;
  if (loop.shape.ranks <= kFewRanks) limits.passes = kLoopPasses;
  candidate.loop = simulator.simulate(*choice.algorithm, loop, world.network(), limits).time;
  candidate.compared = is_rooted(choice.algorithm->collective) ? candidate.prediction.time : candidate.loop;
  candidate.messages = most_messages(*choice.algorithm, candidate.call.shape);
  return candidate;
}

std::vector<Candidate> candidates_of(Collective collective, Bytes bytes, int root, const model::World& world, int lanes,
                                     Bytes tile) {
  std::vector<Candidate> candidates;
  const bool one_host = world.hosts()->hosts == 1;
  const bool flat = one_host || world.hosts()->hosts == world.machine().ranks;
  for (const Algorithm& algorithm : catalogue()) {
    const bool is_other = flat && algorithm.hierarchical && (one_host || !algorithm.serves_alone);
    if (algorithm.collective != collective || is_other) continue;
    const Choice choice = world.choose_algorithm(collective, bytes, algorithm.name);
    if (choice.name_refused) continue;
    candidates.push_back(candidate_of(choice, bytes, root, world, lanes, tile));
  }
  const auto order = [](const Candidate& c) {
    return c.prediction.method == SimulationMethod::kTooLarge ? INT64_MAX : c.compared;
  };
  std::ranges::stable_sort(candidates, [&](const Candidate& a, const Candidate& b) { return order(a) < order(b); });
  return candidates;
}

Parts parts_of(const Candidate& candidate, const model::World& world) {
  Simulator simulator;
  Parts parts;
  SimulatedCall empty = candidate.call;
  Network free = world.network();
  for (LinkCosts* link : {&free.costs.shm, &free.costs.tcp}) link->send_kib = link->recv_kib = link->wire_kib = 0;
  free.costs.reduce_kib = free.costs.copy_kib = free.costs.memory_kib = 0;
  parts.without_bytes = simulator.simulate(*candidate.algorithm, empty, free).time;
  Network roomy = world.network();
  roomy.costs.cores = world.machine().ranks;
  parts.without_handovers = simulator.simulate(*candidate.algorithm, candidate.call, roomy).time;
  return parts;
}

}  // namespace tutti::plan

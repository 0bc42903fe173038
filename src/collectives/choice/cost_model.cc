#include "collectives/choice/cost_model.h"

#include <algorithm>
#include <vector>

#include "collectives/choice/catalogue.h"

namespace tutti {
namespace {

/// A candidate with more steps is not simulated: so many take a few milliseconds at most.
constexpr std::uint64_t kMostSteps = 500'000;
/// Calls of a loop that are simulated: a sender runs ahead as far as its credits reach, 16 small messages, before the
/// pace is that of the slowest.
constexpr std::size_t kCalls = 96;
constexpr std::size_t kLeastCalls = 24;
/// Tiles of one call that are simulated: those at its end have the processors to themselves, so that the last of a few
/// tell too short a pace.
constexpr std::size_t kTiles = 256;

/// With the largest costs of a file the time of such calls is far below the largest Time. Larger calls and messages are
/// predicted as if they were of these sizes.
constexpr Bytes kLargestBlock{std::size_t{1} << 30};
constexpr Bytes kLargestMessage{std::size_t{4} << 20};

std::size_t calls_for(int ranks) {
  return std::clamp<std::size_t>(kCalls * 8 / static_cast<std::size_t>(std::max(ranks, 1)), kLeastCalls, kCalls);
}

Time with_margin(Time time, Time percent) {
  constexpr Time kMost = CostModel::kNever - 1;
  return time > kMost / 2 ? kMost : time + time / 100 * percent;
}

}  // namespace

CostModel::CostModel(const Machine& machine, const HostMap* hosts) : machine_(machine), hosts_(hosts) {
  machine_.max_message = std::min(machine.max_message, kLargestMessage);
  network_.costs = machine.costs;
  network_.costs.tcp = machine.tcp_costs();
  network_.tcp = machine.network;
  network_.same_boot_id = machine.same_boot_id;
}

Time CostModel::predict(const Algorithm& algorithm, Collective collective, Bytes block, int root, Time longest) {
  block = std::min(block, kLargestBlock);
  const Choice choice = choose(collective, block, machine_, algorithm.name, Bytes{0}, hosts_);
  if (choice.name_refused) return kNever;
  SimulatedCall call;
  call.shape = Shape{machine_.ranks, 0, root, choice.lanes, hosts_};
  call.block = block;
  call.tile = choice.tile_bytes;
  call.credits = machine_.credits;
  call.repeated = !is_rooted(collective);  // programs rarely repeat a root: its next call would hide its last rank
  SimulationLimits limits;
  limits.steps = kMostSteps;
  limits.until_repeats = true;
  limits.longest = longest;
  limits.passes = call.repeated ? calls_for(machine_.ranks) : kTiles;
  const Prediction prediction = simulator_.simulate(algorithm, call, network_, limits);
  const bool simulated =
      prediction.method == SimulationMethod::kEvents || prediction.method == SimulationMethod::kSymmetry;
  return simulated ? std::max<Time>(prediction.time, 0) : kNever;
}

bool CostModel::is_candidate(const Algorithm& algorithm, Collective collective) const {
  if (algorithm.collective != scheduled_as(collective)) return false;
  if (!algorithm.hierarchical) return true;
  const bool alone = hosts_ == nullptr ? machine_.network : hosts_->hosts == machine_.ranks;
  if (alone) return algorithm.serves_alone;
  return hosts_ != nullptr && hosts_->hosts > 1;
}

std::size_t CostModel::pick(std::span<const Time> times, std::size_t preferred, Time margin) {
  const Time most = with_margin(*std::min_element(times.begin(), times.end()), margin);
  if (preferred < times.size() && times[preferred] <= most) return preferred;
  return static_cast<std::size_t>(std::find_if(times.begin(), times.end(), [most](Time time) { return time <= most; }) -
                                  times.begin());
}

/// All roots must choose alike, so the slower one of two counts: a host's first rank, and one that is not.
Time CostModel::predict_any_root(const Algorithm& algorithm, Collective collective, Bytes block, Time longest) {
  const Time first = predict(algorithm, collective, block, 0, longest);
  if (!is_rooted(collective) || hosts_ == nullptr || hosts_->hosts == 1 || first == kNever) return first;
  return std::max(first, predict(algorithm, collective, block, machine_.ranks - 1, longest));
}

/// The algorithm that thresholds name is simulated first. It is often the best, and then the others end early.
const Algorithm* CostModel::best(Collective collective, Bytes block) {
  std::vector<const Algorithm*> candidates;
  for (const Algorithm& algorithm : catalogue())
    if (is_candidate(algorithm, collective)) candidates.push_back(&algorithm);
  const std::string_view usual = automatic_algorithm(collective, block, machine_, hosts_);
  const auto found = std::find_if(candidates.begin(), candidates.end(),
                                  [&](const Algorithm* algorithm) { return algorithm->name == usual; });
  const auto preferred = static_cast<std::size_t>(found - candidates.begin());
  std::vector<Time> times(candidates.size(), kNever);
  Time least = kNever;
  const auto look_at = [&](std::size_t i) {
    times[i] = predict_any_root(*candidates[i], collective, block, with_margin(least, margin(machine_)));
    least = std::min(least, times[i]);
  };
  if (preferred < candidates.size()) look_at(preferred);
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (i != preferred) look_at(i);
  return least == kNever ? nullptr : candidates[pick(times, preferred, margin(machine_))];
}

}  // namespace tutti

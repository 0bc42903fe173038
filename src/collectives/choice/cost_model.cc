#include "collectives/choice/cost_model.h"

#include <algorithm>
#include <vector>

#include "collectives/choice/catalogue.h"

namespace tutti {
namespace {

/// A candidate with more steps is not simulated: so many take a few milliseconds at most.
constexpr std::uint64_t kMostSteps = 500'000;
/// A loop that does not come to repeat ends after so many steps. If ranks share cores it does not, because the order in
/// which they get them may still change.
constexpr std::uint64_t kEnoughSteps = 4'000;
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

/// Whether all ranks do the same by either algorithm.
bool have_same_program(const Algorithm& one, const Algorithm& other, Shape shape) {
  if (one.extent(shape) != other.extent(shape)) return false;
  for (shape.rank = 0; shape.rank < shape.ranks; ++shape.rank) {
    const std::uint32_t steps = one.steps(shape);
    if (other.steps(shape) != steps) return false;
    for (std::uint32_t lane = 0; lane < static_cast<std::uint32_t>(shape.lanes); ++lane)
      for (std::uint32_t i = 0; i < steps; ++i)
        if (!(one.step(shape, lane, i) == other.step(shape, lane, i))) return false;
  }
  return true;
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
  if (!machine_.same_boot_id) limits.enough_steps = kEnoughSteps;
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

/// All roots must choose alike, so two are looked at where there are hosts: rank 0, the first of its host, and the last
/// rank, which usually is not.
std::vector<int> CostModel::roots_for(Collective collective) const {
  const bool one = !is_rooted(collective) || hosts_ == nullptr || hosts_->hosts == 1;
  return one ? std::vector<int>{0} : std::vector<int>{0, machine_.ranks - 1};
}

/// The slower one of several roots counts.
Time CostModel::predict_any_root(const Algorithm& algorithm, Collective collective, Bytes block, Time longest) {
  Time slowest = 0;
  for (const int root : roots_for(collective))
    if (slowest != kNever) slowest = std::max(slowest, predict(algorithm, collective, block, root, longest));
  return slowest;
}

/// The algorithm that thresholds name is simulated first. It is often the best, and then the others end early.
const Algorithm* CostModel::best(Collective collective, Bytes block) {
  const std::string_view usual = automatic_algorithm(collective, block, machine_, hosts_);
  const std::vector<const Algorithm*> candidates = candidates_for(collective, block, usual);
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

/// One is enough of candidates that are the same program on these hosts: an exchange of at most three rounds is one of
/// two where two suffice.
std::vector<const Algorithm*> CostModel::candidates_for(Collective collective, Bytes block,
                                                        std::string_view usual) const {
  std::vector<const Algorithm*> candidates;
  const auto choice_of = [&](const Algorithm& algorithm) {
    return choose(collective, block, machine_, algorithm, Bytes{0}, hosts_);
  };
  for (const Algorithm& algorithm : catalogue()) {
    if (!is_candidate(algorithm, collective)) continue;
    const Choice choice = choice_of(algorithm);
    Shape shape{machine_.ranks, 0, 0, choice.lanes, hosts_};
    const auto twin = std::find_if(candidates.begin(), candidates.end(), [&](const Algorithm* other) {
      const Choice known = choice_of(*other);
      if (known.lanes != choice.lanes || known.tile_bytes != choice.tile_bytes) return false;
      bool same = true;
      for (const int root : roots_for(collective)) {
        shape.root = root;
        same = same && have_same_program(*other, algorithm, shape);
      }
      return same;
    });
    if (twin == candidates.end()) {
      candidates.push_back(&algorithm);
    } else if (algorithm.name == usual) {
      *twin = &algorithm;
    }
  }
  return candidates;
}

}  // namespace tutti

#include "probe/cost_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "collectives/choice/cost_model.h"

namespace tutti::probe {
namespace {

/// The machine as a communicator on one host with default settings describes it.
Machine machine_of(int ranks, bool tcp, const Costs& costs) {
  Machine machine;
  machine.ranks = ranks;
  machine.lanes = 2;
  machine.max_message = largest_message(machine.max_message, tcp);
  machine.credits = 4;
  machine.network = tcp;
  machine.same_host_id = machine.same_boot_id = true;
  machine.ranks_per_core = (ranks + costs.cores - 1) / costs.cores;
  machine.hosts.resize(static_cast<std::size_t>(ranks));
  if (tcp) std::iota(machine.hosts.begin(), machine.hosts.end(), 0);
  machine.costs = costs;
  return machine;
}

double at_share(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size()))) - 1];
}

/// The costs that may be changed: those that the cells say something about, but not those that are known.
std::vector<Time*> tunable(Costs& costs, const std::vector<Cell>& cells) {
  std::vector<Time*> all;
  const auto add_link = [&](LinkCosts& link, bool tcp) {
    const auto uses = [tcp](const Cell& cell) { return cell.tcp == tcp; };
    if (std::none_of(cells.begin(), cells.end(), uses)) return;
    for (Time* one : {&link.latency, &link.send_overhead, &link.recv_overhead, &link.send_kib, &link.recv_kib,
                      &link.wire_kib, &link.long_overhead})
      all.push_back(one);
  };
  add_link(costs.shm, false);
  add_link(costs.tcp, true);
  for (Time* one : {&costs.call, &costs.step, &costs.reduce_kib, &costs.copy_kib, &costs.handover, &costs.memory_kib})
    all.push_back(one);
  return all;
}

/// The largest that a file of costs can hold.
constexpr Time kLargestCost = std::numeric_limits<std::int32_t>::max();
constexpr double kPicosecondsInMicrosecond = 1e6;
/// How much more a wrong choice weighs than a wrong prediction, because choosing is what the costs are for.
constexpr double kRegretWeight = 3;

}  // namespace

CostFit::CostFit(std::vector<Cell> cells) : cells_(std::move(cells)) {}

std::vector<Time> CostFit::predict(const Cell& cell, const Costs& costs) {
  const Machine machine = machine_of(cell.ranks, cell.tcp, costs);
  const Topology topology(machine.hosts);
  CostModel model(machine, &topology.map());
  std::vector<Time> predicted;
  for (const Cell::Time& time : cell.times)
    predicted.push_back(model.predict(*time.algorithm, cell.collective, cell.block, cell.root));
  return predicted;
}

/// The index, among the measured algorithms, of the one that thresholds name; their number if it is not among them.
std::size_t CostFit::usual_among(const Cell& cell, const Costs& costs) {
  const Machine machine = machine_of(cell.ranks, cell.tcp, costs);
  const Topology topology(machine.hosts);
  const std::string_view usual = automatic_algorithm(cell.collective, cell.block, machine, &topology.map());
  const auto found = std::find_if(cell.times.begin(), cell.times.end(),
                                  [usual](const Cell::Time& time) { return time.algorithm->name == usual; });
  return static_cast<std::size_t>(found - cell.times.begin());
}

Fit CostFit::quality(const Costs& costs) {
  std::vector<double> errors, regrets;
  for (const Cell& cell : cells_) {
    const std::vector<Time> predicted = predict(cell, costs);
    for (std::size_t i = 0; i < predicted.size(); ++i) {
      const double us = static_cast<double>(std::max<Time>(predicted[i], 1)) / kPicosecondsInMicrosecond;
      errors.push_back(std::abs(std::log(us / cell.times[i].us)));
    }
    const std::size_t preferred = usual_among(cell, costs);
    const Time margin = CostModel::margin(machine_of(cell.ranks, cell.tcp, costs));
    regrets.push_back(cell.times[CostModel::pick(predicted, preferred, margin)].us / cell.best());
  }
  Fit fit;
  if (cells_.empty()) return fit;
  for (const double error : errors) fit.mean_error += std::log1p(error) / static_cast<double>(errors.size());
  for (const double regret : regrets) fit.mean_log_regret += std::log(regret) / static_cast<double>(regrets.size());
  std::sort(errors.begin(), errors.end());
  std::sort(regrets.begin(), regrets.end());
  fit.median_error = at_share(errors, 0.5);
  fit.median_regret = at_share(regrets, 0.5);
  fit.p95_regret = at_share(regrets, 0.95);
  fit.worst_regret = regrets.back();
  return fit;
}

double CostFit::score(const Costs& costs) {
  const Fit fit = quality(costs);
  return fit.mean_error + kRegretWeight * fit.mean_log_regret;
}

Costs CostFit::improve(Costs costs, int rounds) {
  double best = score(costs);
  double reach = 2;  // each cost is multiplied and divided by this
  for (int round = 0; round < rounds && reach > 1.02; ++round) {
    const double before = best;
    for (Time* const cost : tunable(costs, cells_)) {
      for (const double factor : {reach, 1 / reach}) {
        const Time kept = *cost;
        *cost = std::min(static_cast<Time>(static_cast<double>(kept) * factor), kLargestCost);
        const double now = score(costs);
        if (now < best) {
          best = now;
          break;
        }
        *cost = kept;
      }
    }
    if (best > before * 0.995) reach = std::sqrt(reach);
  }
  return costs;
}

}  // namespace tutti::probe

// Finds the costs with which the simulator's predictions come closest to what was measured.
#pragma once

#include <vector>

#include "core/costs.h"
#include "probe/measurements.h"

namespace tutti::probe {

/// How good costs are: over all times, and over the choices that they lead to.
struct Fit {
  double median_error = 0;   ///< of predictions, |ln(predicted / measured)|: 0.1 is about 10 %
  double mean_error = 0;     ///< of ln(1 + the same): a few that are far off do not decide
  double median_regret = 1;  ///< time of the algorithm chosen by prediction / time of the best
  double p95_regret = 1;
  double worst_regret = 1;
  double mean_log_regret = 0;
};

/// Predictions of one thread.
class CostFit {
 public:
  explicit CostFit(std::vector<Cell> cells);

  Fit quality(const Costs& costs);
  /// Changes one cost after another as long as that helps, at most so many rounds (coordinate descent). A cost of 0
  /// stays 0.
  Costs improve(Costs costs, int rounds);
  /// The predicted times of a cell, in the order of its times.
  std::vector<Time> predict(const Cell& cell, const Costs& costs);

 private:
  static std::size_t usual_among(const Cell& cell, const Costs& costs);
  double score(const Costs& costs);

  std::vector<Cell> cells_;
};

}  // namespace tutti::probe

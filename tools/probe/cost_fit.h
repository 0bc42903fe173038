// Finds the costs with which the simulator's predictions come closest to what was measured.
#pragma once

#include <vector>

#include "core/costs.h"
#include "probe/measurements.h"

namespace tutti::probe {

/// How good costs are, judged by all predicted times, and by the choices that they lead to. The error of a prediction
/// is |ln(predicted / measured)|; 0.1 is about 10 %. The regret of a choice is the time of the algorithm that
/// predictions choose divided by that of the best.
struct Fit {
  double median_error = 0;
  double mean_error = 0;  ///< the mean of ln(1 + error), so that a few that are far off do not decide
  double median_regret = 1;
  double p95_regret = 1;
  double worst_regret = 1;
  double mean_log_regret = 0;
};

/// For one thread.
class CostFit {
 public:
  explicit CostFit(std::vector<Cell> cells);

  Fit quality(const Costs& costs);
  /// Changes one cost after another (coordinate descent), as long as that helps and at most for `rounds` rounds. A cost
  /// of 0 stays 0.
  Costs improve(Costs costs, int rounds);
  /// The predicted times of a cell, in the order of its times.
  std::vector<Time> predict(const Cell& cell, const Costs& costs);

 private:
  static std::size_t usual_among(const Cell& cell, const Costs& costs);
  double score(const Costs& costs);

  std::vector<Cell> cells_;
};

}  // namespace tutti::probe

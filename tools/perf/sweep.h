// The sweep measures every algorithm of a collective at every size, and how the one that the library chooses compares.
//
// Method. Each algorithm has a communicator of its own over the same ranks. They take turns, one block of operations
// each, several times, so that what is compared was measured within a fraction of a second, in the same state of the
// machine. A block is timed as a whole and the ranks' times are averaged. A cell shows the median of the blocks, and
// the ratio of two algorithms is the median of the ratios of their blocks of the same turn.
#pragma once

#include <string>
#include <vector>

#include "call.h"
#include "options.h"

namespace tutti::perf {

/// One cell: a size and what it took.
struct SweepRow {
  Row row;
  std::string transport;
  std::string chosen;                 ///< the algorithm that the library chose
  std::vector<std::string> names;     ///< the algorithms, as the catalogue orders them
  std::vector<double> seconds;        ///< by name, the time of an operation
  std::vector<double> chosen_by_all;  ///< by name, the time of the chosen one divided by that one's
  std::uint64_t wrong = 0;            ///< wrong elements in all checks of all ranks

  /// The index of the name whose blocks were fastest, as compared with those of the chosen one.
  std::size_t best() const;
  /// The time of the chosen one divided by that of the best; 1 if it is the best.
  double ratio() const { return chosen_by_all[best()]; }
};

/// Collective; `rows` are the same on all ranks, and all of one collective. Adds the same to `cells` on every rank;
/// rank 0 prints a line for each cell. Returns the exit code; an error is reported on stderr.
int run_sweep(const Options& options, tuttiComm_t comm, int rank, int ranks, const std::vector<Row>& rows,
              std::vector<SweepRow>* cells);

}  // namespace tutti::perf

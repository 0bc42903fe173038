// The sweep: every algorithm of a collective at every size, beside the one that the library chooses by itself.
//
// Method. Each algorithm has a communicator of its own over the same ranks. They take turns, one block of operations
// each, several times; so what is compared was measured within a fraction of a second, in the same state of the
// machine. A block is clocked as a whole and the ranks' times are averaged; a cell shows the median of the blocks, and
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
  std::string chosen;                 ///< by the library
  std::vector<std::string> names;     ///< the algorithms, as the catalogue orders them
  std::vector<double> seconds;        ///< an operation; one a name
  std::vector<double> chosen_by_all;  ///< time of the chosen one divided by that of each name
  std::uint64_t wrong = 0;            ///< elements of all checks of all ranks

  /// The name whose blocks were fastest beside those of the chosen one.
  std::size_t best() const;
  /// Time of the chosen one divided by that of the best: 1 where it is the best.
  double ratio() const { return chosen_by_all[best()]; }
};

/// Collective; `rows` are the same on all ranks and of one collective each. Adds to `cells`, on every rank alike; rank
/// 0 prints a line a cell. Exit code; an error is told on stderr.
int run_sweep(const Options& options, tuttiComm_t comm, int rank, int ranks, const std::vector<Row>& rows,
              std::vector<SweepRow>* cells);

}  // namespace tutti::perf

// The overlap: how much of an operation on a stream is hidden behind the caller's own work, as IMB-NBC measures it.
//
// Method (Intel MPI Benchmarks, "Measuring Communication and Computation Overlap"). Three times are taken in turn: that
// of the operation alone (it is queued, then waited for), that of a computation in registers alone, which is made as
// long as the operation, and that of both (the operation is queued, then computed, then waited for). Each is the mean,
// over the ranks, of the median of the turns. Of the shorter of the two, the share that was hidden is
//   overlap = (operation + computation - both) / min(operation, computation), from 0 to 1.
// How much longer the computation took while the operation was under way is its slowdown.
#pragma once

#include <string>
#include <vector>

#include "call.h"
#include "options.h"

namespace tutti::perf {

struct OverlapRow {
  Row row;
  std::string transport, algorithm;
  double operation = 0, computation = 0, both = 0;  ///< seconds
  double slowdown = 1;
  std::uint64_t wrong = 0;

  double overlap() const;
};

/// Collective; `rows` are the same on all ranks. Rank 0 prints a line for each row, and writes the JSON file if one is
/// asked for. Returns the exit code; an error is reported on stderr.
int run_overlap(const Options& options, tuttiComm_t comm, int rank, int ranks, const char* ranks_are,
                const std::vector<Row>& rows);

}  // namespace tutti::perf

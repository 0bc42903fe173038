// The overlap: how much of an operation on a stream is hidden behind the caller's own work, as IMB-NBC measures it.
//
// Method (Intel MPI Benchmarks, "Measuring Communication and Computation Overlap"). Three times in turn, medians of the
// turns, means over the ranks: the operation alone (queued, then waited for); a computation in registers alone, made as
// long as the operation; and both: queued, computed, waited for. Of the shorter of the two this share was hidden:
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

/// Collective; the same rows on all ranks. Rank 0 prints a line a row, and writes the JSON file if one is asked for.
/// Exit code; an error is told on stderr.
int run_overlap(const Options& options, tuttiComm_t comm, int rank, int ranks, const char* ranks_are,
                const std::vector<Row>& rows);

}  // namespace tutti::perf

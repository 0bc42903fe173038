// What rank 0 prints of a sweep, and its JSON file.
#pragma once

#include <vector>

#include "sweep.h"

namespace tutti::perf {

/// How far the choice is from the best over some cells.
struct SweepSummary {
  double median = 1, p95 = 1, worst = 1;
  std::size_t worst_row = 0;
};
SweepSummary summary_of(const std::vector<SweepRow>& rows);

void begin_sweep(const Options& options, int ranks, const char* ranks_are);
/// Prints one line.
void print_cell(const SweepRow& cell);
/// Prints the footer and writes the JSON file. Returns false if the file could not be written.
bool end_sweep(const Options& options, int ranks, const char* ranks_are, const std::vector<SweepRow>& cells);

}  // namespace tutti::perf

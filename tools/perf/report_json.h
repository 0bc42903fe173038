// The JSON report, and the facts of the machine that it and the table's header show. They never include the
// environment.
#pragma once

#include <string>
#include <vector>

#include "gpu_bench.h"
#include "measure.h"
#include "options.h"
#include "sweep_report.h"

namespace tutti::perf {

/// The operation's name, such as "sum", or "none" if nothing is reduced.
const char* op_text(const Row& row);

/// In GB/s, the mean over rows and directions that move bytes.
double average_bus_bandwidth(const std::vector<RowResult>& results, int ranks);

/// Says whose clock measures the times of device buffers.
std::string times_text(const Options& options);

/// One line with host, processor and cores.
std::string machine_text();

/// The whole file, for rows or for a sweep. It says so if rows are still to come.
std::string json_text(const Options& options, int ranks, const char* ranks_are, const std::vector<RowResult>& results,
                      const GpuFacts* gpus, bool complete);
std::string json_text(const Options& options, int ranks, const char* ranks_are, const std::vector<SweepRow>& cells);

}  // namespace tutti::perf

// The JSON report, and facts of the machine that it and the table's header carry. Never the environment.
#pragma once

#include <string>
#include <vector>

#include "gpu_bench.h"
#include "measure.h"
#include "options.h"
#include "sweep_report.h"

namespace tutti::perf {

/// "sum", or "none" where nothing is reduced.
const char* op_text(const Row& row);

/// GB/s, mean over rows and directions that move bytes.
double average_bus_bandwidth(const std::vector<RowResult>& results, int ranks);

/// Whose clock tells the times of device buffers.
std::string times_text(const Options& options);

/// One line: host, processor, cores.
std::string machine_text();

/// The whole file: of rows, or of a sweep.
std::string json_text(const Options& options, int ranks, const char* ranks_are, const std::vector<RowResult>& results,
                      const GpuFacts* gpus);
std::string json_text(const Options& options, int ranks, const char* ranks_are, const std::vector<SweepRow>& cells);

}  // namespace tutti::perf

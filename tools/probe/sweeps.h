// The sweeps that tutti-probe makes by itself.
#pragma once

#include <string>
#include <vector>

#include "core/status.h"
#include "probe/measurements.h"

namespace tutti::probe {

/// Runs tutti-perf --sweep over shared memory and over the loopback of tcp, with 2 ranks and with more ranks than
/// cores. Takes a few seconds. `perf` is the program tutti-perf; if it is empty, the one beside this program is run.
Status measure_sweeps(const std::string& perf, std::vector<Cell>* cells);

}  // namespace tutti::probe

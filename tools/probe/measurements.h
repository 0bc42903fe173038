// What the cost model is fitted to: times of algorithms as tutti-perf --sweep measured them.
#pragma once

#include <string>
#include <vector>

#include "core/machine.h"
#include "core/status.h"
#include "core/units.h"
#include "schedule/generator.h"

namespace tutti::probe {

/// One collective at one size on some ranks of this machine, by every algorithm.
struct Cell {
  Collective collective{};
  Bytes block;  ///< as choose() takes it
  int root = 0;
  int ranks = 1;
  bool tcp = false;
  std::string chosen;  ///< by the library that measured
  struct Time {
    const Algorithm* algorithm;
    double us;
  };
  std::vector<Time> times;

  double best() const;
};

/// Adds the cells of a file that tutti-perf --sweep -J wrote. Cells of v-forms, whose schedules are those of the plain
/// forms, and of one rank are left out.
Status read_sweep(const std::string& path, std::vector<Cell>* cells);

}  // namespace tutti::probe

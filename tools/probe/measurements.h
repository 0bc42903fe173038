// What the cost model is fitted to: the times of algorithms that tutti-perf --sweep measured.
#pragma once

#include <string>
#include <vector>

#include "core/machine.h"
#include "core/status.h"
#include "core/units.h"
#include "schedule/generator.h"

namespace tutti::probe {

/// The times of every algorithm for one collective at one size on some ranks of this machine.
struct Cell {
  Collective collective{};
  Bytes block;  ///< what choose() takes as its block
  int root = 0;
  int ranks = 1;
  bool tcp = false;
  std::string chosen;  ///< what the library chose when it was measured
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

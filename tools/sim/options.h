// The command line of tutti-sim.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/types.h"
#include "model/world.h"

namespace tutti::sim {

struct Options {
  Collective collective = Collective::kNone;
  model::WorldOptions world;  ///< its ranks and hosts are set for each row
  std::vector<int> ranks;
  int per_host = 0;  ///< ranks of a host; if 0, `world.hosts` says how many hosts there are
  std::vector<std::size_t> sizes;
  std::vector<std::string> algorithms;  ///< empty for all
  int root = 0;
  int lanes = 0;  ///< 0 for the library's choice
  bool repeated = false;
  bool symmetry = true;
  int passes = 0;  ///< simulated at most; 0: as many as it takes in most cases
  std::string csv_path;
  bool print_costs = false;
};

struct Parsed {
  bool stop = false;
  int code = 0;
};
/// If it returns `stop`, the program has to end with `code`; what there was to say has been printed.
Parsed parse_options(int argc, char** argv, Options* options);

inline constexpr int kBadOptions = 2;

}  // namespace tutti::sim

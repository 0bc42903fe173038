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
  model::WorldOptions world;  ///< ranks and hosts: those of each row
  std::vector<int> ranks;
  int per_host = 0;  ///< ranks of a host; 0: `hosts` says how many hosts there are
  std::vector<std::size_t> sizes;
  std::vector<std::string> algorithms;  ///< empty: all
  int root = 0;
  int lanes = 0;  ///< 0: the library's choice
  bool repeated = false;
  bool symmetry = true;
  std::string csv_path;
  bool print_costs = false;
};

struct Parsed {
  bool stop = false;
  int code = 0;
};
/// `stop`: the program ends with `code`, what there was to say is said.
Parsed parse_options(int argc, char** argv, Options* options);

inline constexpr int kBadOptions = 2;

}  // namespace tutti::sim

// The command line of tutti-plan.
#pragma once

#include <cstddef>
#include <string>

#include "core/types.h"
#include "model/world.h"

namespace tutti::plan {

struct Options {
  Collective collective = Collective::kNone;
  model::WorldOptions world;
  Bytes bytes;
  std::string algorithm;  ///< empty for the library's choice
  int root = 0;
  int rank = -1;      ///< whose schedule is printed; -1 for nobody's
  int lanes = 0;      ///< 0 for the library's choice
  Bytes tile;         ///< 0 for the library's choice
  int tiles = 1;      ///< how many are drawn
  bool grid = false;  ///< print the steps of all ranks beside one another
  bool even = false;  ///< the picture shows the order of steps, not their times
  std::string title;
  std::string svg_path;
  std::string png_path;
};

struct Parsed {
  bool stop = false;
  int code = 0;
};
/// If it returns `stop`, the program has to end with `code`; what there was to say has been printed.
Parsed parse_options(int argc, char** argv, Options* options);

inline constexpr int kBadOptions = 2;

}  // namespace tutti::plan

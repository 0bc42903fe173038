// The command line of tutti-perf.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "names.h"

namespace tutti::perf {

/// How the ranks' times become one figure, with nccl-tests' numbers.
enum class Average { kRank0 = 0, kMean = 1, kMin = 2, kMax = 3 };

/// The options of --compare.
struct Compare {
  std::vector<std::string> peers;  ///< names; empty if nothing is compared
  int rounds = 4;
  int pairs = 4;        ///< of each size and peer in a round
  double block_ms = 4;  ///< a block's length; it has at least one operation for each root
  std::string folder;   ///< where the contestants' programs are; empty means the build's folder
};

/// The options of -g.
struct GpuOptions {
  int devices = 0;      ///< 0 means host buffers
  int ranks_each = 1;   ///< threads on each device if --ranks does not say
  int graph_calls = 0;  ///< operations in a captured graph; 0 if none is captured
};

struct Options {
  CollectiveName collective{};
  std::size_t min_bytes = 8;
  std::size_t max_bytes = 64ULL << 20;
  std::size_t step_bytes = 0;  ///< 0 means that sizes grow by step_factor
  double step_factor = 2;
  int iterations = 0;  ///< 0 means as many as fit a fixed time, at least 5
  int warmups = 5;
  int checks = 1;
  std::vector<Operation> ops{Operation::kSum};
  std::vector<tuttiDataType_t> types{tuttiFloat32};
  bool every_pair = false;  ///< a list or "all" was given, so pairs that are not defined are left out silently
  std::vector<int> roots{0};
  bool all_roots = false;
  bool isolated = false;  ///< -z 1: there is a barrier before each operation, which is not timed
  bool cpu_time = false;
  Average average = Average::kMean;
  double timeout_seconds = -1;              ///< below 0 it is the library's setting
  tuttiDataType_t wire = tuttiDataTypeMax;  ///< the wire type of reductions of float32; tuttiDataTypeMax if none is set
  bool deterministic = false;
  bool registered = false;  ///< -R 1: buffers from tuttiMemAlloc
  std::string json_path;
  std::string algorithm;  ///< empty means the setting in force; so does an empty transport
  std::string transport;
  int ranks = 0;  ///< 0 means one for each core, or those of the launcher
  bool threads = false;
  Compare compare;
  GpuOptions gpu;
  bool sweep = false;             ///< measures every algorithm at every size instead of the chosen one
  bool every_collective = false;  ///< the sweep is over all collectives
  bool overlap = false;           ///< measures operations on a stream while the caller computes
  bool list_settings = false;
  std::string secret_file;  ///< --make-secret: the file to be made

  // Set by the program for the ranks that it starts, not by users.
  int child_rank = -1;
  int child_ranks = 0;
  int child_id_fd = -1;
};

/// Exit codes of the program.
inline constexpr int kFailed = 1;      ///< a wrong result or an error
inline constexpr int kBadOptions = 2;  ///< found before anything is measured
/// Inside the program this means kFailed, but all ranks have come to the end and leave the communicator in order.
inline constexpr int kFailedInOrder = 3;

/// What to do after parsing.
struct Parsed {
  bool stop = false;  ///< exit now with `code` (help, version, bad options; texts are printed)
  int code = 0;
};

Parsed parse_options(int argc, char** argv, Options* options);

/// The sizes that were asked for, ascending.
std::vector<std::size_t> sizes_of(const Options& options);

}  // namespace tutti::perf

// The command line of tutti-perf.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "names.h"

namespace tutti::perf {

/// How the ranks' times become one figure, with nccl-tests' numbers.
enum class Average { kRank0 = 0, kMean = 1, kMin = 2, kMax = 3 };

/// --compare.
struct Compare {
  std::vector<std::string> peers;  ///< names; empty: no comparison
  int rounds = 4;
  int pairs = 4;        ///< of each size and peer in a round
  double block_ms = 4;  ///< a block's length, at least one operation a root
  std::string folder;   ///< of the contestants' programs; empty: the build's
};

/// -g.
struct GpuOptions {
  int devices = 0;      ///< 0: host buffers
  int ranks_each = 1;   ///< threads on each device, where --ranks does not say
  int graph_calls = 0;  ///< operations of a captured graph; 0: none is captured
};

struct Options {
  CollectiveName collective{};
  std::size_t min_bytes = 8;
  std::size_t max_bytes = 64ULL << 20;
  std::size_t step_bytes = 0;  ///< 0: by factor
  double step_factor = 2;
  int iterations = 0;  ///< 0: as many as fit a fixed time, at least 5
  int warmups = 5;
  int checks = 1;
  std::vector<Operation> ops{Operation::kSum};
  std::vector<tuttiDataType_t> types{tuttiFloat32};
  bool every_pair = false;  ///< a list or "all" was given: pairs that are not defined are left out silently
  std::vector<int> roots{0};
  bool all_roots = false;
  bool isolated = false;  ///< -z 1: a barrier before each operation, only the operation is timed
  bool cpu_time = false;
  Average average = Average::kMean;
  double timeout_seconds = -1;              ///< < 0: the library's setting
  tuttiDataType_t wire = tuttiDataTypeMax;  ///< what float32 travels as where it is reduced; tuttiDataTypeMax: itself
  bool deterministic = false;
  bool registered = false;  ///< -R 1: buffers from tuttiMemAlloc
  std::string json_path;
  std::string algorithm;  ///< empty: the setting in force
  std::string transport;
  int ranks = 0;  ///< 0: one a core, or the launcher's
  bool threads = false;
  Compare compare;
  GpuOptions gpu;
  bool sweep = false;             ///< every algorithm at every size instead of the chosen one
  bool every_collective = false;  ///< of a sweep
  bool overlap = false;           ///< operations on a stream beside the caller's own computing
  bool list_settings = false;
  std::string secret_file;  ///< --make-secret: to be made

  // Set by the program for the ranks that it starts, not by users.
  int child_rank = -1;
  int child_ranks = 0;
  int child_id_fd = -1;
};

/// Exit codes of the program.
inline constexpr int kFailed = 1;      ///< a wrong result or an error
inline constexpr int kBadOptions = 2;  ///< found before anything is measured
/// Inside the program: kFailed, but all ranks got to the end and leave the communicator in order.
inline constexpr int kFailedInOrder = 3;

/// What to do after parsing.
struct Parsed {
  bool stop = false;  ///< exit now with `code` (help, version, bad options; texts are printed)
  int code = 0;
};

Parsed parse_options(int argc, char** argv, Options* options);

/// The sizes asked for, ascending.
std::vector<std::size_t> sizes_of(const Options& options);

}  // namespace tutti::perf

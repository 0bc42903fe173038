// How the ranks come to be: a launcher has started them, or they are processes or threads that are started here.
#pragma once

#include <functional>

#include "options.h"

namespace tutti::perf {

/// The launcher whose rank this process is ("Open MPI", "torchrun", ...), or nullptr.
const char* launcher_name();

/// What a rank does between joining and leaving. Returns its exit code.
using RankBody = std::function<int(tuttiComm_t comm, int rank, int ranks, const char* ranks_are)>;

/// Starts `ranks` copies of this program with the same options and waits for them. A rank that fails ends them all.
/// Returns the exit code.
int run_processes(int ranks, int argc, char** argv);
/// Runs one of those copies.
int run_child(const Options& options, const RankBody& body);
int run_threads(int ranks, const Options& options, const RankBody& body);
int run_launched(const Options& options, const RankBody& body);

/// The device that -g gives to the rank, counted on its own host.
int device_of(const Options& options, int rank);

/// How many cores this process may use, each for one rank.
int default_ranks();

}  // namespace tutti::perf

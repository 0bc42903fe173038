// How the ranks come to be: a launcher's, processes started here, or threads.
#pragma once

#include <functional>

#include "options.h"

namespace tutti::perf {

/// The launcher whose rank this process is ("Open MPI", "torchrun", ...), or nullptr.
const char* launcher_name();

/// The rank that this program runs: joins, measures, leaves. Returns its exit code.
using RankBody = std::function<int(tuttiComm_t comm, int rank, int ranks, const char* ranks_are)>;

/// Starts `ranks` copies of this program with the same options and waits. A rank that fails ends them all. Exit code.
int run_processes(int ranks, int argc, char** argv);
/// This process is one of those copies.
int run_child(const Options& options, const RankBody& body);
int run_threads(int ranks, const Options& options, const RankBody& body);
int run_launched(const Options& options, const RankBody& body);

/// With -g: the rank's device, counted on its own host.
int device_of(const Options& options, int rank);

/// Cores that this process may use.
int default_ranks();

}  // namespace tutti::perf

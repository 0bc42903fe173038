// A cache line sent to and fro between ranks 0 and 1: tells how far apart their cores are right now.
#pragma once

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include "state.h"

namespace tutti::race {

class Ping {
 public:
  /// Collective over the ranks of one host.
  explicit Ping(MPI_Comm comm);
  ~Ping();
  Ping(const Ping&) = delete;
  Ping& operator=(const Ping&) = delete;

  /// Collective. Nanoseconds one way, the same on every rank. Ranks above 1 sleep.
  double one_way_ns();

 private:
  struct Page {
    PingLines lines;
    PingLines::Line done;  // the number of finished rounds of one_way_ns, released by rank 0, and its result
    std::atomic<double> result;
  };

  int rank_ = 0;
  int size_ = 1;
  MPI_Win window_ = MPI_WIN_NULL;
  Page* page_ = nullptr;
  std::uint64_t sent_ = 0, rounds_ = 0;
};

}  // namespace tutti::race

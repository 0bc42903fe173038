// A cache line sent to and fro between ranks 0 and 1: tells how far apart their cores are right now.
#pragma once

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <atomic>
#include <cstdint>

namespace tutti::race {

/// Mixed: the state changed within a pair. Disturbed: something else ran on the cores.
enum class State { kNear, kFar, kMixed, kDisturbed };

/// One way below this many nanoseconds: the cores share a cache.
inline constexpr double kNearBelow = 120;

class Ping {
 public:
  /// Collective over the ranks of one host.
  explicit Ping(MPI_Comm comm);
  ~Ping();
  Ping(const Ping&) = delete;
  Ping& operator=(const Ping&) = delete;

  /// Collective: about 0.1 ms near, 0.5 ms far. Nanoseconds one way, the same on every rank. Ranks above 1 sleep.
  double one_way_ns();

 private:
  struct Line {
    alignas(128) std::atomic<std::uint64_t> value;
  };
  struct Page {
    Line there, back;  // each pairs with the other rank's acquire load
    Line done;         // the number of finished rounds of one_way_ns, released by rank 0, and its result
    std::atomic<double> result;
  };

  int rank_ = 0;
  int size_ = 1;
  MPI_Win window_ = MPI_WIN_NULL;
  Page* page_ = nullptr;
  std::uint64_t sent_ = 0, rounds_ = 0;
};

/// near or far when all measurements agree.
State state_of(double before, double between, double after);

}  // namespace tutti::race

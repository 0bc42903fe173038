// One collective as Tutti, MPI and the memory alone do it, on the same buffers.
#pragma once

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#include <tutti/tutti_mpi.h>

#include <cstddef>
#include <vector>

#include "contested.h"

namespace tutti::race {

enum class Runner { kTutti, kMpi, kFloor };

class Contest {
 public:
  /// `most_bytes`: the largest size that will be asked for. In place: all_reduce alone.
  Contest(Contested what, tuttiComm_t comm, std::size_t most_bytes, bool in_place);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  bool is_rooted() const { return race::is_rooted(what_); }
  const char* name() const { return kContestedNames[static_cast<int>(what_)]; }
  /// Once, with `bytes` from each rank (of a root: to all ranks together). Collective, except the floor, which every
  /// rank runs for itself: the output computed from inputs of its own. False: a call failed, and was told.
  bool run(Runner runner, std::size_t bytes);
  /// Collective: the elements that come out wrong on all ranks together.
  std::size_t count_wrong(Runner runner, std::size_t bytes);
  /// In place, zeros stay zeros however often they are added.
  void clear();

 private:
  std::size_t block(std::size_t bytes) const;
  bool run_tutti(std::size_t count, int root);
  void run_mpi(std::size_t count, int root);
  void run_floor(std::size_t bytes);

  const Contested what_;
  const tuttiComm_t comm_;
  const bool in_place_;
  int rank_ = 0, ranks_ = 1;
  std::vector<float> send_, recv_, other_;
  int turns_[3] = {};
};

}  // namespace tutti::race

// A raced collective as MPI has it.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <cstddef>
#include <string>

#include "contested.h"

namespace tutti::race {

/// On MPI_COMM_WORLD; `in` may be MPI_IN_PLACE where MPI allows it. An MPI error code.
inline int call_mpi(Contested what, const void* in, float* out, std::size_t elements, int root) {
  const int count = static_cast<int>(elements);
  MPI_Comm const all = MPI_COMM_WORLD;
  switch (what) {
    case Contested::kAllReduce:
      return MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, all);
    case Contested::kAllGather:
      return MPI_Allgather(in, count, MPI_FLOAT, out, count, MPI_FLOAT, all);
    case Contested::kBroadcast:
      return MPI_Bcast(out, count, MPI_FLOAT, root, all);
    case Contested::kReduce:
      return MPI_Reduce(in, out, count, MPI_FLOAT, MPI_SUM, root, all);
    case Contested::kReduceScatter:
      return MPI_Reduce_scatter_block(in, out, count, MPI_FLOAT, MPI_SUM, all);
    case Contested::kAllToAll:
      return MPI_Alltoall(in, count, MPI_FLOAT, out, count, MPI_FLOAT, all);
    case Contested::kGather:
      return MPI_Gather(in, count, MPI_FLOAT, out, count, MPI_FLOAT, root, all);
    case Contested::kScatter:
      return MPI_Scatter(in, count, MPI_FLOAT, out, count, MPI_FLOAT, root, all);
    case Contested::kBarrier:
      return MPI_Barrier(all);
  }
  return MPI_ERR_OTHER;
}

/// "Open MPI v4.1.4", "MPICH 4.0.2".
inline std::string mpi_name() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string name(text, static_cast<std::size_t>(length));
  name = name.substr(0, name.find_first_of(",\n"));
  const std::size_t title = name.find("Version:");  // MPICH's words
  if (title == std::string::npos) return name;
  const std::size_t number = name.find_first_not_of(" \t", title + 8);
  return "MPICH " + (number == std::string::npos ? "" : name.substr(number));
}

}  // namespace tutti::race

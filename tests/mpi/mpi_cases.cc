// The collective cases as an MPI program: joins through tutti_mpi.h, through a reordered sub-communicator, and by
// env:// from what the launcher left in the environment. `mpi_cases mpi|split|env [large]`
// Covers include/tutti/tutti_mpi.h, comm/rendezvous/launcher.cc.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#include <tutti/tutti_mpi.h>

#include <cstdio>
#include <cstring>

#include "cases/collective_cases.h"
#include "cases/effort_of.h"

namespace {

/// The rank and size that the join must give.
struct Place {
  int rank = 0;
  int size = 1;
};

Place place_in(MPI_Comm comm) {
  Place place;
  MPI_Comm_rank(comm, &place.rank);
  MPI_Comm_size(comm, &place.size);
  return place;
}

/// Halves of the world, each in reverse order.
MPI_Comm reversed_half() {
  const Place world = place_in(MPI_COMM_WORLD);
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, world.rank % 2, -world.rank, &half);
  return half;
}

int run(const char* way, bool large) {
  MPI_Comm group = std::strcmp(way, "split") == 0 ? reversed_half() : MPI_COMM_WORLD;
  const Place place = place_in(group);
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.timeoutSeconds = 60;
  config.joinTimeoutSeconds = 200;
  tuttiComm_t comm = nullptr;
  const tuttiResult_t joined = std::strcmp(way, "env") == 0 ? tuttiCommInitUrl(&comm, "env://", -1, -1, &config)
                                                            : tuttiCommInitMPI(&comm, group, &config);
  if (joined != tuttiSuccess) {
    std::fprintf(stderr, "rank %d: join: %s: %s\n", place.rank, tuttiGetErrorString(joined),
                 tuttiGetLastError(nullptr));
    return 1;
  }
  int rank = -1, size = -1;
  tuttiCommUserRank(comm, &rank);
  tuttiCommCount(comm, &size);
  if (rank != place.rank || size != place.size) {
    std::fprintf(stderr, "joined as rank %d of %d, MPI says %d of %d\n", rank, size, place.rank, place.size);
    return 1;
  }
  // The ways differ in how ranks join: in short runs one of them has all cases, and that up to five ranks.
  const tutti::cases::Effort usual = large ? tutti::cases::Effort::kLarge : tutti::cases::Effort::kUsual;
  const bool whole = std::strcmp(way, "mpi") == 0 && size <= 5;
  const tutti::cases::Outcome outcome =
      tutti::cases::run_all_cases(comm, rank, size, whole ? usual : tutti::cases::sample_of(usual), 100);
  const tuttiResult_t left = tuttiCommDestroy(comm);
  if (left != tuttiSuccess) std::fprintf(stderr, "rank %d: leaving: %s\n", rank, tuttiGetErrorString(left));
  if (rank == 0)
    std::printf("%s, %d ranks: %ld calls checked, %ld wrong\n", way, size, outcome.checked, outcome.failed);
  return outcome.failed == 0 && outcome.checked > 0 && left == tuttiSuccess ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const char* way = argc > 1 ? argv[1] : "mpi";
  const bool large = argc > 2 && std::strcmp(argv[2], "large") == 0;
  const int code = run(way, large);
  if (code != 0) MPI_Abort(MPI_COMM_WORLD, code);  // the others would wait in MPI_Finalize
  MPI_Finalize();
  return 0;
}

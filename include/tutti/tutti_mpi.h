/* Joining through an MPI communicator. Header only: the library itself does not link MPI. */
#ifndef TUTTI_MPI_H_
#define TUTTI_MPI_H_

#include <mpi.h>
#include <tutti/tutti.h>

/** Joins the ranks of `mpi_comm` in their order. Collective over it; MPI must be initialised. Rank 0 makes the unique
 * id and broadcasts it, with its result, so that a failure there is a failure everywhere. `config` may be NULL. */
static inline tuttiResult_t tuttiCommInitMPI(tuttiComm_t* comm, MPI_Comm mpi_comm, const tuttiConfig_t* config) {
  struct {
    tuttiUniqueId id;
    int result;
  } first;
  int rank = 0, size = 1, initialized = 0;
  if (comm == NULL) return tuttiInvalidArgument;
  *comm = NULL;
  if (MPI_Initialized(&initialized) != MPI_SUCCESS || !initialized) return tuttiInvalidUsage;
  if (MPI_Comm_rank(mpi_comm, &rank) != MPI_SUCCESS || MPI_Comm_size(mpi_comm, &size) != MPI_SUCCESS)
    return tuttiInvalidArgument;
  if (rank == 0) first.result = (int)tuttiGetUniqueId(&first.id);
  if (MPI_Bcast(&first, (int)sizeof first, MPI_BYTE, 0, mpi_comm) != MPI_SUCCESS) return tuttiSystemError;
  if (first.result != (int)tuttiSuccess) return (tuttiResult_t)first.result;
  return tuttiCommInitRankConfig(comm, size, first.id, rank, config);
}

#endif /* TUTTI_MPI_H_ */

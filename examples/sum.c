/* Sums a vector across ranks. Alone: ./sum, or with ranks: mpirun -n 4 ./sum, torchrun --no-python ... ./sum */
#include <stdio.h>
#include <tutti/tutti.h>

#define CHECK(call)                                                \
  do {                                                             \
    tuttiResult_t result = (call);                                 \
    if (result != tuttiSuccess) {                                  \
      fprintf(stderr, "%s: %s\n", #call, tuttiGetLastError(NULL)); \
      return 1;                                                    \
    }                                                              \
  } while (0)

int main(void) {
  tuttiComm_t comm;
  int rank, ranks;
  CHECK(tuttiCommInitUrl(&comm, "env://", -1, -1, NULL)); /* rank and size from the launcher */
  CHECK(tuttiCommUserRank(comm, &rank));
  CHECK(tuttiCommCount(comm, &ranks));

  float mine[4], sum[4];
  for (int i = 0; i < 4; ++i) mine[i] = (float)((rank + 1) * (i + 1));
  CHECK(tuttiAllReduce(mine, sum, 4, tuttiFloat32, tuttiSum, comm, NULL));

  if (rank == 0) printf("sum over %d ranks: %g %g %g %g\n", ranks, sum[0], sum[1], sum[2], sum[3]);
  CHECK(tuttiCommDestroy(comm));
  return 0;
}

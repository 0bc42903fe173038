// Joins through an allgather that the caller brings: the way of runtimes such as UCC, that hand a library nothing but
// a callback. No launcher, no URL: rank 0 makes a unique id, one allgather carries it, all ranks join by it.
//
// The caller here is a toy: processes that it forks, and an allgather over memory that they share.
#include <sys/mman.h>
#include <sys/wait.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

namespace {

/// What such a runtime gives: gathers `size` bytes of each rank, in rank order, on all ranks. 0: done.
using AllGather = int (*)(void* context, const void* mine, void* all, std::size_t size);

tuttiResult_t join_by_callback(tuttiComm_t* comm, int ranks, int rank, AllGather all_gather, void* context) {
  tuttiUniqueId mine{};  // only rank 0's counts
  if (rank == 0) {
    const tuttiResult_t made = tuttiGetUniqueId(&mine);
    if (made != tuttiSuccess) return made;
  }
  std::vector<tuttiUniqueId> all(static_cast<std::size_t>(ranks));
  if (all_gather(context, &mine, all.data(), sizeof mine) != 0) return tuttiSystemError;
  return tuttiCommInitRank(comm, ranks, all[0], rank);
}

// The toy runtime.
constexpr int kMaxRanks = 64;
struct Board {
  std::atomic<int> written;
  char cells[kMaxRanks][256];
};
struct Place {
  Board* board;
  int rank, ranks;
};

int gather_over_board(void* context, const void* mine, void* all, std::size_t size) {
  const Place& place = *static_cast<Place*>(context);
  if (size > sizeof place.board->cells[0]) return -1;
  std::memcpy(place.board->cells[place.rank], mine, size);
  place.board->written.fetch_add(1, std::memory_order_acq_rel);  // pairs with the load below
  while (place.board->written.load(std::memory_order_acquire) < place.ranks) usleep(100);
  for (int rank = 0; rank < place.ranks; ++rank)
    std::memcpy(static_cast<char*>(all) + static_cast<std::size_t>(rank) * size, place.board->cells[rank], size);
  return 0;
}

int be_a_rank(Place place) {
  tuttiComm_t comm = nullptr;
  if (join_by_callback(&comm, place.ranks, place.rank, gather_over_board, &place) != tuttiSuccess) {
    std::fprintf(stderr, "rank %d: %s\n", place.rank, tuttiGetLastError(nullptr));
    return 1;
  }
  const int mine = place.rank + 1;
  int sum = 0;
  const tuttiResult_t result = tuttiAllReduce(&mine, &sum, 1, tuttiInt32, tuttiSum, comm, nullptr);
  if (result == tuttiSuccess && place.rank == 0) std::printf("sum over %d ranks: %d\n", place.ranks, sum);
  return tuttiCommDestroy(comm) == tuttiSuccess && result == tuttiSuccess ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 4;
  if (ranks < 1 || ranks > kMaxRanks) return 2;
  void* const memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  Board* const board = new (memory) Board{};
  for (int rank = 0; rank < ranks; ++rank)
    if (fork() == 0) return be_a_rank({board, rank, ranks});
  int failed = 0;
  for (int status = 0; wait(&status) > 0;) failed |= status;
  return failed == 0 ? 0 : 1;
}

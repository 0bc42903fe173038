#include "contest.h"

#include <algorithm>
#include <cstdio>

#include "mpi_call.h"
#include "tutti_call.h"

namespace tutti::race {

Contest::Contest(Contested what, tuttiComm_t comm, std::size_t most_bytes, bool in_place)
    : what_(what), comm_(comm), in_place_(in_place) {
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  const std::size_t count = most_bytes / sizeof(float) + static_cast<std::size_t>(ranks_);
  send_.resize(count);
  other_.resize(reduces(what_) ? count : 0);
  recv_.resize(is_joined(what_) && !is_split(what_) ? count * static_cast<std::size_t>(ranks_) : count);
  for (std::size_t i = 0; i < count; ++i) send_[i] = input(rank_, i);
}

/// Elements that one rank has for one other.
std::size_t Contest::block(std::size_t bytes) const {
  const std::size_t count = bytes / sizeof(float);
  return is_split(what_) ? std::max<std::size_t>(1, count / static_cast<std::size_t>(ranks_)) : count;
}

bool Contest::run(Runner runner, std::size_t bytes) {
  const int root = is_rooted() ? turns_[static_cast<int>(runner)]++ % ranks_ : 0;
  if (runner == Runner::kTutti) return run_tutti(block(bytes), root);
  if (runner == Runner::kMpi) return run_mpi(block(bytes), root), true;
  return run_floor(bytes), true;
}

bool Contest::run_tutti(std::size_t count, int root) {
  const float* const in = in_place_ ? recv_.data() : send_.data();
  const tuttiResult_t code = call_tutti(what_, in, recv_.data(), count, root, comm_);
  if (code == tuttiSuccess) return true;
  std::fprintf(stderr, "rank %d: %s: %s\n", rank_, tuttiGetErrorString(code), tuttiGetLastError(comm_));
  return false;
}

void Contest::run_mpi(std::size_t count, int root) {
  call_mpi(what_, in_place_ ? MPI_IN_PLACE : send_.data(), recv_.data(), count, root);
}

void Contest::run_floor(std::size_t bytes) {
  const std::size_t times = is_joined(what_) && !is_split(what_) ? static_cast<std::size_t>(ranks_) : 1;
  race::run_floor(what_, {send_.data(), other_.data(), recv_.data()}, bytes / sizeof(float), times);
}

std::size_t Contest::count_wrong(Runner runner, std::size_t bytes) {
  const std::size_t size = block(bytes);
  if (what_ == Contested::kBarrier) return run(runner, bytes) ? 0 : 1;
  const std::size_t elements = is_joined(what_) ? size * static_cast<std::size_t>(ranks_) : size;
  std::fill(recv_.begin(), recv_.end(), -1.0F);
  const int root = is_rooted() ? turns_[static_cast<int>(runner)] % ranks_ : 0;
  if (in_place_ || (what_ == Contested::kBroadcast && rank_ == root))
    std::copy_n(send_.begin(), elements, recv_.begin());
  std::size_t wrong = run(runner, bytes) ? 0 : 1;
  for (std::size_t i = 0; i < elements && (!is_for_root(what_) || rank_ == root); ++i)
    wrong += recv_[i] == expected(what_, rank_, ranks_, size, i, root) ? 0 : 1;
  unsigned long mine = wrong, all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_UNSIGNED_LONG, MPI_SUM, MPI_COMM_WORLD);
  return all;
}

void Contest::clear() { std::fill(recv_.begin(), recv_.end(), 0.0F); }

}  // namespace tutti::race

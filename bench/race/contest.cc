#include "contest.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace tutti::race {
namespace {

/// What rank `rank` has at a place: small integers, whose sums are exact and known.
float input(int rank, std::size_t at) { return static_cast<float>(at % 1021 + static_cast<std::size_t>(rank)); }

// As wide as this machine's vectors are: what a rank cannot do sooner, whoever brings it the data.
#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
void add(const float* a, const float* b, float* sum, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
}

}  // namespace

Contest::Contest(Contested what, tuttiComm_t comm, std::size_t most_bytes, bool in_place)
    : what_(what), comm_(comm), in_place_(in_place) {
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  const std::size_t count = most_bytes / sizeof(float) + static_cast<std::size_t>(ranks_);
  send_.resize(count);
  other_.resize(reduces() ? count : 0);
  recv_.resize(is_joined() && !is_split() ? count * static_cast<std::size_t>(ranks_) : count);
  for (std::size_t i = 0; i < count; ++i) send_[i] = input(rank_, i);
}

bool Contest::is_split() const {
  return what_ == Contested::kReduceScatter || what_ == Contested::kAllToAll || what_ == Contested::kScatter;
}
bool Contest::is_joined() const {
  return what_ == Contested::kAllGather || what_ == Contested::kAllToAll || what_ == Contested::kGather;
}
bool Contest::is_rooted() const {
  return what_ == Contested::kBroadcast || what_ == Contested::kReduce || what_ == Contested::kGather ||
         what_ == Contested::kScatter;
}
bool Contest::reduces() const {
  return what_ == Contested::kAllReduce || what_ == Contested::kReduce || what_ == Contested::kReduceScatter;
}

/// Elements that one rank has for one other.
std::size_t Contest::block(std::size_t bytes) const {
  const std::size_t count = bytes / sizeof(float);
  return is_split() ? std::max<std::size_t>(1, count / static_cast<std::size_t>(ranks_)) : count;
}

bool Contest::run(Runner runner, std::size_t bytes) {
  const int root = is_rooted() ? turns_[static_cast<int>(runner)]++ % ranks_ : 0;
  if (runner == Runner::kTutti) return run_tutti(block(bytes), root);
  if (runner == Runner::kMpi) return run_mpi(static_cast<int>(block(bytes)), root), true;
  return run_floor(bytes), true;
}

// A broadcast is in place, as MPI's always is.
bool Contest::run_tutti(std::size_t count, int root) {
  const float* const in = in_place_ ? recv_.data() : send_.data();
  float* const out = recv_.data();
  const auto call = [&] {
    switch (what_) {
      case Contested::kAllReduce:
        return tuttiAllReduce(in, out, count, tuttiFloat32, tuttiSum, comm_, nullptr);
      case Contested::kAllGather:
        return tuttiAllGather(in, out, count, tuttiFloat32, comm_, nullptr);
      case Contested::kBroadcast:
        return tuttiBroadcast(out, out, count, tuttiFloat32, root, comm_, nullptr);
      case Contested::kReduce:
        return tuttiReduce(in, out, count, tuttiFloat32, tuttiSum, root, comm_, nullptr);
      case Contested::kReduceScatter:
        return tuttiReduceScatter(in, out, count, tuttiFloat32, tuttiSum, comm_, nullptr);
      case Contested::kAllToAll:
        return tuttiAllToAll(in, out, count, tuttiFloat32, comm_, nullptr);
      case Contested::kGather:
        return tuttiGather(in, out, count, tuttiFloat32, root, comm_, nullptr);
      case Contested::kScatter:
        return tuttiScatter(in, out, count, tuttiFloat32, root, comm_, nullptr);
      case Contested::kBarrier:
        return tuttiBarrier(comm_, nullptr);
    }
    return tuttiInvalidArgument;
  };
  const tuttiResult_t code = call();
  if (code == tuttiSuccess) return true;
  std::fprintf(stderr, "rank %d: %s: %s\n", rank_, tuttiGetErrorString(code), tuttiGetLastError(comm_));
  return false;
}

void Contest::run_mpi(int count, int root) {
  const void* const in = in_place_ ? MPI_IN_PLACE : send_.data();
  float* const out = recv_.data();
  MPI_Comm const all = MPI_COMM_WORLD;
  switch (what_) {
    case Contested::kAllReduce:
      MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, all);
      break;
    case Contested::kAllGather:
      MPI_Allgather(in, count, MPI_FLOAT, out, count, MPI_FLOAT, all);
      break;
    case Contested::kBroadcast:
      MPI_Bcast(out, count, MPI_FLOAT, root, all);
      break;
    case Contested::kReduce:
      MPI_Reduce(in, out, count, MPI_FLOAT, MPI_SUM, root, all);
      break;
    case Contested::kReduceScatter:
      MPI_Reduce_scatter_block(in, out, count, MPI_FLOAT, MPI_SUM, all);
      break;
    case Contested::kAllToAll:
      MPI_Alltoall(in, count, MPI_FLOAT, out, count, MPI_FLOAT, all);
      break;
    case Contested::kGather:
      MPI_Gather(in, count, MPI_FLOAT, out, count, MPI_FLOAT, root, all);
      break;
    case Contested::kScatter:
      MPI_Scatter(in, count, MPI_FLOAT, out, count, MPI_FLOAT, root, all);
      break;
    case Contested::kBarrier:
      MPI_Barrier(all);
      break;
  }
}

/// Reductions: two arrays read, one written; the rest: the output written from as much input.
void Contest::run_floor(std::size_t bytes) {
  const std::size_t count = bytes / sizeof(float);
  if (what_ == Contested::kBarrier) return;
  if (reduces()) return add(send_.data(), other_.data(), recv_.data(), count);
  const std::size_t times = is_joined() && !is_split() ? static_cast<std::size_t>(ranks_) : 1;
  for (std::size_t i = 0; i < times; ++i) std::memcpy(recv_.data() + i * count, send_.data(), bytes);
}

float Contest::expected(std::size_t block, std::size_t at, int root) const {
  const std::size_t own = static_cast<std::size_t>(rank_) * block;
  const auto sum = [&](std::size_t place) {
    float all = 0;
    for (int rank = 0; rank < ranks_; ++rank) all += input(rank, place);
    return all;
  };
  switch (what_) {
    case Contested::kAllReduce:
    case Contested::kReduce:
      return sum(at);
    case Contested::kReduceScatter:
      return sum(own + at);
    case Contested::kAllGather:
    case Contested::kGather:
      return input(static_cast<int>(at / block), at % block);
    case Contested::kAllToAll:
      return input(static_cast<int>(at / block), own + at % block);
    case Contested::kBroadcast:
      return input(root, at);
    case Contested::kScatter:
      return input(root, own + at);
    case Contested::kBarrier:
      return 0;
  }
  return 0;
}

std::size_t Contest::count_wrong(Runner runner, std::size_t bytes) {
  const std::size_t size = block(bytes);
  if (what_ == Contested::kBarrier) return run(runner, bytes) ? 0 : 1;
  const std::size_t elements = is_joined() ? size * static_cast<std::size_t>(ranks_) : size;
  std::fill(recv_.begin(), recv_.end(), -1.0F);
  const int root = is_rooted() ? turns_[static_cast<int>(runner)] % ranks_ : 0;
  if (in_place_ || (what_ == Contested::kBroadcast && rank_ == root))
    std::copy_n(send_.begin(), elements, recv_.begin());
  std::size_t wrong = run(runner, bytes) ? 0 : 1;
  const bool only_root = what_ == Contested::kReduce || what_ == Contested::kGather;
  for (std::size_t i = 0; i < elements && (!only_root || rank_ == root); ++i)
    wrong += recv_[i] == expected(size, i, root) ? 0 : 1;
  unsigned long mine = wrong, all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_UNSIGNED_LONG, MPI_SUM, MPI_COMM_WORLD);
  return all;
}

void Contest::clear() { std::fill(recv_.begin(), recv_.end(), 0.0F); }

}  // namespace tutti::race

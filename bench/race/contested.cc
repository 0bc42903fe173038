#include "contested.h"

namespace tutti::race {
namespace {

// The loops use vectors as wide as this machine has; bench/CMakeLists.txt has the flags for that.
#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
void add(const float* a, const float* b, float* sum, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
}

// The C library's memcpy is slow between some pairs of addresses on some processors (docs/design/kernels.md, "Copies"),
// which says nothing of the memory. bench/CMakeLists.txt keeps g++ from calling it.
#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
void copy(const float* from, float* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = from[i];
}

}  // namespace

bool is_split(Contested what) {
  return what == Contested::kReduceScatter || what == Contested::kAllToAll || what == Contested::kScatter;
}
bool is_joined(Contested what) {
  return what == Contested::kAllGather || what == Contested::kAllToAll || what == Contested::kGather;
}
bool is_rooted(Contested what) {
  return what == Contested::kBroadcast || what == Contested::kReduce || what == Contested::kGather ||
         what == Contested::kScatter;
}
bool reduces(Contested what) {
  return what == Contested::kAllReduce || what == Contested::kReduce || what == Contested::kReduceScatter;
}
bool is_for_root(Contested what) { return what == Contested::kReduce || what == Contested::kGather; }

float input(int rank, std::size_t at) { return static_cast<float>(at % 1021 + static_cast<std::size_t>(rank)); }

float expected(Contested what, int rank, int ranks, std::size_t block, std::size_t at, int root) {
  const std::size_t own = static_cast<std::size_t>(rank) * block;
  const auto sum = [&](std::size_t place) {
    float all = 0;
    for (int other = 0; other < ranks; ++other) all += input(other, place);
    return all;
  };
  switch (what) {
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

void run_floor(Contested what, const Floor& floor, std::size_t count, std::size_t times) {
  if (what == Contested::kBarrier) return;
  if (reduces(what)) return add(floor.send, floor.other, floor.recv, count);
  for (std::size_t i = 0; i < times; ++i) copy(floor.send, floor.recv + i * count, count);
}

}  // namespace tutti::race

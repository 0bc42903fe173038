#include "kernels/kernels.h"

#include <atomic>

#include "kernels/isa_table.h"

// TUTTI_BASELINE_KERNELS: the files of the other instruction sets are not compiled (kernels/flags.cmake).
#if defined(__x86_64__) && !defined(TUTTI_BASELINE_KERNELS)
#define TUTTI_SIMD_SETS 1
#include <cpuid.h>
#endif

namespace tutti {
namespace {

/// The table in use; nullptr: not chosen yet. Relaxed throughout: the tables are constant, any of them is right.
std::atomic<const IsaTable*> chosen{nullptr};

#if defined(TUTTI_SIMD_SETS)
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

/// The best table that this processor (and its operating system) runs, at most `limit` sets above the baseline.
const IsaTable* best_table(int limit) {
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && has_f16c();
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  if (avx512 && limit >= 2) return &kAvx512Table;
  if (avx2 && limit >= 1) return &kAvx2Table;
  return &kBaselineTable;
}
#else
const IsaTable* best_table(int) { return &kBaselineTable; }
#endif

}  // namespace

const IsaTable& isa_table() {
  const IsaTable* table = chosen.load(std::memory_order_relaxed);
  if (table != nullptr) [[likely]]
    return *table;
  table = best_table(2);
  const IsaTable* expected = nullptr;
  // Keeps a choice that another thread made meanwhile.
  if (!chosen.compare_exchange_strong(expected, table, std::memory_order_relaxed)) table = expected;
  return *table;
}

ReduceKernel reduce_kernel(DataType type, RedOp op) {
  return isa_table().reduce[static_cast<int>(type)][static_cast<int>(op)];
}

void scale(DataType type, void* destination, const void* source, std::size_t count, const void* scalar) {
  isa_table().scale[static_cast<int>(type)](destination, source, count, scalar);
}

void narrow_floats(DataType wire, void* destination, const float* source, std::size_t count) {
  const auto narrow = isa_table().narrow[static_cast<int>(wire)];
  if (narrow != nullptr) narrow(destination, source, count);
}

void widen_floats(DataType wire, float* destination, const void* source, std::size_t count, bool stream) {
  const auto widen = isa_table().widen[static_cast<int>(wire)];
  if (widen != nullptr) widen(destination, source, count, stream);
}

const char* simd_name() { return isa_table().name; }

bool select_simd(const std::string& name) {
  int limit = 0;
  if (name == "auto" || name == "avx512") {
    limit = 2;
  } else if (name == "avx2") {
    limit = 1;
  } else if (name != "baseline") {
    return false;
  }
  chosen.store(best_table(limit), std::memory_order_relaxed);
  return true;
}

}  // namespace tutti

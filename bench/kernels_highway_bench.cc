// The same four reductions written three ways, by turns: the library's kernels (vector extensions), Google Highway, and
// plain loops left to the compiler. All three give the same bits; main() checks that before it measures. Not part of
// the library: docs/design/kernels.md has the numbers and the decision.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels_highway_bench.cc"
#include <hwy/foreach_target.h>  // compiles this file once per target
#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Words = hn::ScalableTag<std::uint32_t>;
using Floats = hn::ScalableTag<float>;

// Calls body(i) for every vector, four at a time. Lengths are multiples of four vectors here.
template <class Tag, class Body>
HWY_ATTR inline void for_vectors(Tag tag, std::size_t count, const Body& body) {
  const std::size_t lanes = hn::Lanes(tag);
  for (std::size_t i = 0; i < count; i += 4 * lanes) {
    body(i);
    body(i + lanes);
    body(i + 2 * lanes);
    body(i + 3 * lanes);
  }
}

template <class V>
HWY_ATTR inline V quiet(V v) {
  const Floats d;
  return hn::IfThenElse(hn::IsNaN(v), hn::BitCast(d, hn::Set(Words(), 0x7fc00000u)), v);
}

HWY_ATTR void sum_float(float* to, const float* a, const float* b, std::size_t count) {
  const Floats d;
  for_vectors(d, count, [&](std::size_t i) HWY_ATTR {
    hn::StoreU(quiet(hn::Add(hn::LoadU(d, a + i), hn::LoadU(d, b + i))), d, to + i);
  });
}

HWY_ATTR void min_float(float* to, const float* a, const float* b, std::size_t count) {
  const Floats d;
  for_vectors(d, count, [&](std::size_t i) HWY_ATTR {
    const auto x = hn::LoadU(d, a + i);
    const auto y = hn::LoadU(d, b + i);
    const auto smaller = hn::IfThenElse(hn::Lt(x, y), x, y);
    const auto ordered = hn::IfThenElse(hn::Eq(x, y), hn::Or(x, y), smaller);
    hn::StoreU(quiet(hn::IfThenElse(hn::IsNaN(x), x, ordered)), d, to + i);
  });
}

HWY_ATTR void sum_bfloat(std::uint16_t* to, const std::uint16_t* a, const std::uint16_t* b, std::size_t count) {
  const Floats d;
  const Words words;
  const hn::Rebind<std::uint16_t, Words> halves;
  for_vectors(d, count, [&](std::size_t i) HWY_ATTR {
    const auto x = hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(words, hn::LoadU(halves, a + i))));
    const auto y = hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(words, hn::LoadU(halves, b + i))));
    const auto bits = hn::BitCast(words, quiet(hn::Add(x, y)));
    // The quiet NaN's lower half is zero: rounding leaves it alone.
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(words, 0x7fff))));
    hn::StoreU(hn::TruncateTo(halves, rounded), halves, to + i);
  });
}

HWY_ATTR void max_int8(std::int8_t* to, const std::int8_t* a, const std::int8_t* b, std::size_t count) {
  const hn::ScalableTag<std::int8_t> d;
  for_vectors(d, count, [&](std::size_t i) HWY_ATTR {
    hn::StoreU(hn::Max(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, to + i);
  });
}

// The same as plain loops.
HWY_ATTR void loop_sum_float(float* to, const float* a, const float* b, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    const float sum = a[i] + b[i];
    to[i] = sum == sum ? sum : __builtin_nanf("");
  }
}

HWY_ATTR void loop_min_float(float* to, const float* a, const float* b, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    const float x = a[i];
    const float y = b[i];
    const float zero =
        __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, x) | __builtin_bit_cast(std::uint32_t, y));
    const float ordered = x == y ? zero : (x < y ? x : y);
    const float result = x == x ? ordered : x;
    to[i] = result == result ? result : __builtin_nanf("");
  }
}

HWY_ATTR void loop_sum_bfloat(std::uint16_t* to, const std::uint16_t* a, const std::uint16_t* b, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    const float sum = __builtin_bit_cast(float, static_cast<std::uint32_t>(a[i]) << 16) +
                      __builtin_bit_cast(float, static_cast<std::uint32_t>(b[i]) << 16);
    const auto bits = __builtin_bit_cast(std::uint32_t, sum);
    const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    to[i] = static_cast<std::uint16_t>(sum == sum ? rounded : 0x7fc0u);
  }
}

HWY_ATTR void loop_max_int8(std::int8_t* to, const std::int8_t* a, const std::int8_t* b, std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) to[i] = a[i] > b[i] ? a[i] : b[i];
}

}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "kernels/kernels.h"

namespace tutti {
namespace {

HWY_EXPORT(sum_float);
HWY_EXPORT(min_float);
HWY_EXPORT(sum_bfloat);
HWY_EXPORT(max_int8);
HWY_EXPORT(loop_sum_float);
HWY_EXPORT(loop_min_float);
HWY_EXPORT(loop_sum_bfloat);
HWY_EXPORT(loop_max_int8);

struct Buffers {
  using Memory = std::unique_ptr<unsigned char, decltype(&std::free)>;
  explicit Buffers(std::size_t size) : bytes(size), to(allocate(size)), a(allocate(size)), b(allocate(size)) {}
  static Memory allocate(std::size_t bytes) {
    auto* memory = static_cast<unsigned char*>(std::aligned_alloc(64, bytes));
    for (std::size_t i = 0; i < bytes; ++i) memory[i] = static_cast<unsigned char>(std::rand() >> 7);
    return {memory, &std::free};
  }
  std::size_t bytes;
  Memory to, a, b;
};

using Pass = void (*)(const Buffers& buffers);

template <class T, class Function>
void call(const Buffers& buffers, Function function) {
  function(reinterpret_cast<T*>(buffers.to.get()), reinterpret_cast<const T*>(buffers.a.get()),
           reinterpret_cast<const T*>(buffers.b.get()), buffers.bytes / sizeof(T));
}

template <DataType kType, RedOp kOp>
void library(const Buffers& buffers) {
  const void* sources[] = {buffers.a.get(), buffers.b.get()};
  reduce_kernel(kType, kOp)({sources, 2, buffers.to.get(), nullptr, buffers.bytes / size_of(kType).value});
}

struct Contest {
  const char* name;
  Pass kernel, highway, loop;
};
const Contest kContests[] = {
    {"sum/float32", library<DataType::kFloat32, RedOp::kSum>,
     [](const Buffers& b) { call<float>(b, HWY_DYNAMIC_DISPATCH(sum_float)); },
     [](const Buffers& b) { call<float>(b, HWY_DYNAMIC_DISPATCH(loop_sum_float)); }},
    {"min/float32", library<DataType::kFloat32, RedOp::kMin>,
     [](const Buffers& b) { call<float>(b, HWY_DYNAMIC_DISPATCH(min_float)); },
     [](const Buffers& b) { call<float>(b, HWY_DYNAMIC_DISPATCH(loop_min_float)); }},
    {"sum/bfloat16", library<DataType::kBfloat16, RedOp::kSum>,
     [](const Buffers& b) { call<std::uint16_t>(b, HWY_DYNAMIC_DISPATCH(sum_bfloat)); },
     [](const Buffers& b) { call<std::uint16_t>(b, HWY_DYNAMIC_DISPATCH(loop_sum_bfloat)); }},
    {"max/int8", library<DataType::kInt8, RedOp::kMax>,
     [](const Buffers& b) { call<std::int8_t>(b, HWY_DYNAMIC_DISPATCH(max_int8)); },
     [](const Buffers& b) { call<std::int8_t>(b, HWY_DYNAMIC_DISPATCH(loop_max_int8)); }},
};

bool all_agree() {
  const Buffers buffers(65536);
  for (const Contest& contest : kContests) {
    contest.kernel(buffers);
    const std::string expected(reinterpret_cast<const char*>(buffers.to.get()), buffers.bytes);
    for (Pass pass : {contest.highway, contest.loop}) {
      std::memset(buffers.to.get(), 0, buffers.bytes);
      pass(buffers);
      if (std::memcmp(buffers.to.get(), expected.data(), buffers.bytes) != 0) {
        std::fprintf(stderr, "%s: results differ\n", contest.name);
        return false;
      }
    }
  }
  return true;
}

void add(const std::string& name, Pass pass, std::size_t bytes) {
  benchmark::RegisterBenchmark((name + "/" + std::to_string(bytes)).c_str(), [=](benchmark::State& state) {
    const Buffers buffers(bytes);
    for (auto unused : state) {
      (void)unused;
      pass(buffers);
      benchmark::ClobberMemory();
    }
    state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * bytes));
  });
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  if (!tutti::all_agree()) return 1;
  for (const tutti::Contest& contest : tutti::kContests) {
    for (std::size_t bytes : {std::size_t{4096}, std::size_t{262144}, std::size_t{16777216}}) {
      tutti::add(std::string(contest.name) + "/library", contest.kernel, bytes);
      tutti::add(std::string(contest.name) + "/highway", contest.highway, bytes);
      tutti::add(std::string(contest.name) + "/loop", contest.loop, bytes);
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
#endif  // HWY_ONCE

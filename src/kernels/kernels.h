// CPU kernels: copy and reduce. One table of types and operations; the instruction set is chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/types.h"
#include "core/units.h"
#include "kernels/slot_stores.h"

namespace tutti {

/// A reduction made by the library's user. `fold` computes inout[i] = in[i] op inout[i] for `count` elements, `in` from
/// lower ranks; it may run on several threads at once. Both pointers are aligned to `element` at least where the
/// caller's buffers are.
struct UserReduction {
  void (*fold)(const UserReduction& self, const void* in, void* inout, std::size_t count) = nullptr;
  Bytes element{1};  ///< at most 16 KiB
};

/// In which order the sources of a reduction are combined.
enum class ReduceOrder : std::uint8_t {
  kLeft,  ///< ((s0 op s1) op s2) op ...
  /// The deterministic mode's: sum(lo,hi) = sum(lo,mid) op sum(mid,hi), mid = lo + the largest power of two below
  /// hi - lo. Partial results in the lanes' precision (float for 8 and 16-bit floats), one rounding at the end.
  kTree,
};

/// One pass over memory: destination[i] = source_0[i] op source_1[i] op ... in that order, then divided by `divisor`.
/// Buffers need not be aligned. A destination may be the same pointer as a source; any other overlap is undefined.
struct ReduceArgs {
  const void* const* sources = nullptr;
  int source_count = 0;  ///< 1 or more; 1 copies (and divides)
  void* destination = nullptr;
  void* second = nullptr;     ///< a second destination, same values; nullptr: none
  std::size_t count = 0;      ///< elements
  std::uint32_t divisor = 1;  ///< Avg at the complete step: the number of ranks; else 1
  bool stream = false;        ///< `destination` exceeds the caches: write it past them (never applies to `second`)
  ReduceOrder order = ReduceOrder::kLeft;
  const UserReduction* user = nullptr;  ///< for reduce_by_user only
};
using ReduceKernel = void (*)(const ReduceArgs&);

/// All float kernels return one and the same quiet NaN, whatever NaNs come in. Results are the same bits for every
/// instruction set, alignment and position; floats are combined in the caller's rounding mode.
/// The kernel for a type and operation, or nullptr where the pair is not offered (Avg of bool, bitwise on floats).
/// Only Avg's kernel divides. One array load; thread-safe after the first call, which probes the CPU.
ReduceKernel reduce_kernel(DataType type, RedOp op);

/// The same reduction where `destination` is shared memory that another core has read since it was last written (a
/// slot). Plain stores first fetch every such line; this goes through a small buffer and the copy that does not (a
/// third to a half of the time when the cores are far, from 2 KiB on), or past the caches where `stores` has found that
/// faster. `second` is stored plainly, `stream` is ignored. `element`: size of the kernel's type. Neither sources nor
/// second may overlap the destination unless equal to it.
void reduce_into_slot(ReduceKernel kernel, Bytes element, const ReduceArgs& args, SlotStores& stores);

/// The kernel of user-made reductions: combines by args.user->fold, from the last source down to the first, whatever
/// the order asked for; `divisor` and `stream` are ignored. Needs no memory but a piece of stack; calls fold in pieces.
void reduce_by_user(const ReduceArgs& args);

/// destination[i] = source[i] * scalar in the type's own arithmetic: integers wrap, 8 and 16-bit floats are multiplied
/// in float and rounded once, bool is AND. `scalar` points to one element of `type`, need not be aligned, as the
/// buffers. Destination and source are equal or do not overlap.
void scale(DataType type, void* destination, const void* source, std::size_t count, const void* scalar);

/// float to an 8 or 16-bit float type and back, with the rounding of the reductions (to nearest even; fp8 that
/// overflows becomes NaN in e4m3, which has no infinity, and Inf in e5m2). Buffers need not be aligned and do not
/// overlap. `stream`: write past the caches. Other types: no effect.
void narrow_floats(DataType wire, void* destination, const float* source, std::size_t count);
void widen_floats(DataType wire, float* destination, const void* source, std::size_t count, bool stream);

/// Copies; regions do not overlap unless equal. `stream`: write past the caches.
void copy_bytes(void* destination, const void* source, Bytes bytes, bool stream);
/// Copies to two destinations, reading the source once; each past the caches or not.
void copy_bytes_twice(void* destination, void* second, const void* source, Bytes bytes, bool stream,
                      bool stream_second = false);
/// Copies into a slot, and if `second` is not nullptr there as well. `stream` applies to `second` only.
void copy_into_slot(void* slot, void* second, const void* source, Bytes bytes, bool stream, SlotStores& stores);

/// The instruction set in use: "avx512", "avx2", "baseline"; TUTTI_SIMD may lower it.
const char* simd_name();

/// Chooses the instruction set: "auto" is the best the processor has; a named one is used if the processor has it, else
/// the next lower. False, and no change, for any other name. The results of all kernels are the same bits whatever is
/// chosen. Process-wide; may be called while other threads run kernels, who then use either set.
bool select_simd(const std::string& name);

}  // namespace tutti

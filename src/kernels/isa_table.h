// What one instruction set offers: its kernels, by type and operation. One table per instruction set, all constant.
#pragma once

#include "kernels/kernels.h"

namespace tutti {

struct IsaTable {
  const char* name;
  ReduceKernel reduce[kDataTypes][kRedOps];  ///< nullptr: not offered
  void (*copy)(void* destination, const void* source, std::size_t bytes, bool stream);
  void (*scale[kDataTypes])(void* destination, const void* source, std::size_t count, const void* scalar);
  /// These two are there for 8 and 16-bit floats, and nullptr for other types.
  void (*narrow[kDataTypes])(void* destination, const float* source, std::size_t count);
  void (*widen[kDataTypes])(float* destination, const void* source, std::size_t count, bool stream);
};

extern const IsaTable kBaselineTable;
#if defined(__x86_64__)
extern const IsaTable kAvx2Table;
extern const IsaTable kAvx512Table;
#endif

/// The table in use.
const IsaTable& isa_table();

}  // namespace tutti

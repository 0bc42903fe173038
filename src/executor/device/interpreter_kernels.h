// The kernels of the interpreter. There is one for each group of types, which has a function for each type and
// operation, and one for all reductions in the order of a tree: these need so many registers that in the same kernel
// the loop over the steps would be left too few. No CUDA header is needed to include this.
#pragma once

#include "core/types.h"

namespace tutti {

/// How many threads a block of the interpreter has.
inline constexpr unsigned kInterpreterThreads = 512;

// These return what cudaLaunchKernel takes, for kernels whose one argument is a DeviceCall.
const void* integer_interpreter();
const void* real_interpreter();
const void* small_float_interpreter();
const void* tree_interpreter();

/// How many threads a block has in a pass over one buffer, see device_pass.h, and in a copy of rows.
inline constexpr unsigned kPassThreads = 256;
/// Returns the kernel whose one argument is a DevicePass.
const void* pass_function();
/// Returns the kernel whose one argument is a RowsCopy, see device_rows.h.
const void* rows_function();

}  // namespace tutti

// The interpreter as kernels: one for each group of types, and in each one function a type and operation. No CUDA
// header is needed to include this.
#pragma once

#include "core/types.h"

namespace tutti {

/// Threads of a block.
inline constexpr unsigned kInterpreterThreads = 512;

// What cudaLaunchKernel takes, with a DeviceCall as its one argument.
const void* integer_interpreter();
const void* real_interpreter();
const void* small_float_interpreter();

/// Threads of a block of a pass over one buffer, see device_pass.h, and of a copy of rows.
inline constexpr unsigned kPassThreads = 256;
/// The same with a DevicePass.
const void* pass_function();
/// The same with a RowsCopy, see device_rows.h.
const void* rows_function();

}  // namespace tutti

// This is built in place of cuda_gpu.cc if there is no CUDA compiler.
#include "gpu.h"

namespace tutti::perf {

Gpu* find_gpu(std::string* why) {
  *why = "this tutti-perf was built without CUDA (TUTTI_CUDA)";
  return nullptr;
}

}  // namespace tutti::perf

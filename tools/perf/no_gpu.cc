// In place of cuda_gpu.cc where there was no CUDA compiler.
#include "gpu.h"

namespace tutti::perf {

Gpu* find_gpu(std::string* why) {
  *why = "this tutti-perf was built without CUDA (TUTTI_CUDA)";
  return nullptr;
}

}  // namespace tutti::perf

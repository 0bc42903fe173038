#include "gpu.h"

namespace tutti::perf {

std::string& gpu_fault() {
  thread_local std::string text;
  return text;
}

}  // namespace tutti::perf

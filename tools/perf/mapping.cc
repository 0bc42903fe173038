#include "mapping.h"

#include <sys/mman.h>
#include <tutti/tutti.h>

#include "data.h"

namespace tutti::perf {

bool Mapping::map(std::size_t bytes, bool registered) {
  unmap();
  void* memory = nullptr;
  if (registered) {
    if (tuttiMemAlloc(&memory, bytes) != tuttiSuccess) return false;
  } else {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
  }
  data_ = static_cast<std::byte*>(memory);
  bytes_ = bytes;
  registered_ = registered;
  poison(data_, bytes);
  return true;
}

void Mapping::unmap() {
  if (data_ == nullptr) return;
  if (registered_) {
    tuttiMemFree(data_);
  } else {
    munmap(data_, bytes_);
  }
  data_ = nullptr;
}

}  // namespace tutti::perf

#include "kernels/isa_table.h"
#include "kernels/kernels.h"

namespace tutti {

void copy_bytes(void* destination, const void* source, Bytes bytes, bool stream) {
  isa_table().copy(destination, source, bytes.value, stream);
}

void copy_bytes_twice(void* destination, void* second, const void* source, Bytes bytes, bool stream) {
  isa_table().copy_twice(destination, second, source, bytes.value, stream);
}

}  // namespace tutti

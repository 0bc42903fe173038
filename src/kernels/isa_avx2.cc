// AVX2 and F16C.
#define TUTTI_ISA avx2
#include "kernels/isa_kernels.h"

namespace tutti {
#if defined(__x86_64__)
constinit const IsaTable kAvx2Table = avx2::make_table("avx2");
#endif
}  // namespace tutti

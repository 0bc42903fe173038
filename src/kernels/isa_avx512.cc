// AVX-512 F, BW, DQ and VL.
#define TUTTI_ISA avx512
#include "kernels/isa_kernels.h"

namespace tutti {
#if defined(__x86_64__)
constinit const IsaTable kAvx512Table = avx512::make_table("avx512");
#endif
}  // namespace tutti

// The instruction set that every processor of the architecture has.
#define TUTTI_ISA baseline
#include "kernels/isa_kernels.h"

namespace tutti {
constinit const IsaTable kBaselineTable = baseline::make_table("baseline");
}  // namespace tutti

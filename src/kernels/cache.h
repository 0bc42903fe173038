// The processor's caches, as far as copies depend on them.
#pragma once

#include "core/units.h"

namespace tutti {

/// The largest cache of the first core, as Linux tells; 32 MiB where it does not. Read once per process; any
/// thread.
Bytes last_level_cache();

}  // namespace tutti

// Split: two all-gathers on the parent, then an ordinary join of each color by a unique id that its first rank made.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "core/status.h"
#include "tutti/tutti.h"

namespace tutti {

/// A collective on `parent`. `color` < 0: takes part and gets nullptr.
Status split(Communicator& parent, int color, int key, const tuttiConfig_t* config,
             std::shared_ptr<Communicator>* comm);

}  // namespace tutti

// Descriptors that a forked child must not keep: a child's copy of a socket would hide its parent's death.
#pragma once

#include "core/status.h"

namespace tutti {

/// Closes `descriptor` in children forked from now on. Any thread.
void guard_descriptor(int descriptor);
/// Before it is closed here.
void unguard_descriptor(int descriptor);

/// Installs the fork handlers, once per process. `in_child` runs in each forked child, where only the forking thread
/// exists: it may set flags and nothing else. `lock` and `unlock` surround the fork in the parent; `unlock` runs in the
/// child too.
Status install_fork_handlers(void (*lock)(), void (*unlock)(), void (*in_child)());

}  // namespace tutti

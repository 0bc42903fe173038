// Which steps of a schedule need no order among each other.
#pragma once

#include "schedule/schedule.h"

namespace tutti {

/// Marks runs of steps of a lane that only send one chunk, to different ranks, and of steps that only store one chunk
/// that they receive, from different ranks and to different places: Step::together. Who runs such steps at once awaits
/// all their messages and credits first. No message of a run may then depend on what a message of the same run brings
/// about: true where ranks send to all before they receive from any, as those do whose steps form runs.
void mark_what_runs_together(Schedule* schedule);

}  // namespace tutti

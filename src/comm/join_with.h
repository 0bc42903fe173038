// join() with something to do just before the ranks are let go.
#pragma once

#include "comm/join_task.h"

namespace tutti {

/// As join(). `before_ready` (may be empty) runs in this thread after this rank has connected to all others and before
/// join() returns on any rank: the place to take away what led the ranks here. If it fails, all ranks fail.
Status join_with(const JoinRequest& request, const JoinTask::BeforeReady& before_ready, JoinResult* result);

}  // namespace tutti

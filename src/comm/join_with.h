// join() with something to do just before the ranks are let go.
#pragma once

#include "comm/join_task.h"

namespace tutti {

/// As join(). `before_ready` (may be empty) runs in this thread after this rank has connected to all others and before
/// join() returns on any rank: the place to take away what led the ranks here. If it fails, all ranks fail. `served`
/// (may be nullptr): false when nobody serves the id, or it was used up: then nobody knows of this attempt.
Status join_with(const JoinRequest& request, const JoinTask::BeforeReady& before_ready, JoinResult* result,
                 bool* served = nullptr);

/// Takes an id back that nobody has joined by.
void withdraw_unique_id(const Settings& settings, const IdBytes& id);

/// kInvalidArgument unless it is a rank of as many ranks as a communicator may have.
Status check_ranks(const JoinRequest& request);

}  // namespace tutti

// join() with something to do just before the ranks are let go.
#pragma once

#include "comm/join/join_task.h"

namespace tutti {

/// As join(). `before_ready` (may be empty) runs in this thread after this rank has connected to all others and before
/// join() returns on any rank: the place to take away what led the ranks here. If it fails, all ranks fail.
Status join_with(const JoinRequest& request, const JoinTask::BeforeReady& before_ready, JoinResult* result);

/// join() by an id that may be of no use any more.
struct JoinAttempt {
  std::function<bool()> in_vain;  ///< asked each 50 ms while nobody has answered: true gives it up
  JoinTask::Service service = JoinTask::Service::kServed;  ///< what became of it; kServed also if it failed before
};
Status join_with(const JoinRequest& request, JoinAttempt* attempt, JoinResult* result);

/// Takes an id back that nobody has joined by.
void withdraw_unique_id(const Settings& settings, const IdBytes& id);

/// kInvalidArgument unless it is a rank of as many ranks as a communicator may have.
Status check_ranks(const JoinRequest& request);

}  // namespace tutti

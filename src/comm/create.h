// Makes communicators: from a join's arguments to a communicator that can run.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/create_options.h"
#include "comm/join/join.h"
#include "core/status.h"
#include "tutti/tutti.h"

namespace tutti {

/// These block until all ranks have joined.
Status create_from_id(const tuttiUniqueId& id, const CreateOptions& options, std::shared_ptr<Communicator>* comm);
Status create_from_url(const std::string& url, const CreateOptions& options, std::shared_ptr<Communicator>* comm);

/// Returns kInvalidArgument unless there can be so many ranks, and the rank is one of them.
Status check_place(const CreateOptions& options);
/// Splits, shrinks and grows make a communicator in these two steps. What can fail on one rank alone comes first, so
/// that the others need not wait for a rank that will not come. prepare_join() leaves the request without its id.
Status prepare_join(const CreateOptions& options, JoinRequest* request);
Status create_prepared(const JoinRequest& request, const CreateOptions& options, std::shared_ptr<Communicator>* comm);

}  // namespace tutti

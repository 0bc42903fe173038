// Making communicators: from a join's arguments to a communicator that can run.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/join/join.h"
#include "core/settings.h"
#include "core/status.h"
#include "tutti/tutti.h"

namespace tutti {

/// What a rank brings to a join besides the meeting point.
struct CreateOptions {
  int ranks = -1;
  int rank = -1;
  int device = -1;  ///< for device buffers; -1: the calling thread's
  Settings settings;
  std::string name;
  std::string costs;  ///< as rank 0 tells them to all; empty: those in force where rank 0 is
};

/// The settings in force, overlaid with `config` (may be NULL). Checks the config's magic and values.
Status read_options(const tuttiConfig_t* config, CreateOptions* options);
/// Overlays `config` on options that are there already (a split's parent).
Status apply_config(const tuttiConfig_t* config, CreateOptions* options);

/// Block until all ranks joined.
Status create_from_id(const tuttiUniqueId& id, const CreateOptions& options, std::shared_ptr<Communicator>* comm);
Status create_from_url(const std::string& url, const CreateOptions& options, std::shared_ptr<Communicator>* comm);

/// The same in two steps, for a split: what can fail on one rank alone comes first, so that the others need not wait
/// for a rank that will not come. The request still lacks its id.
Status prepare_join(const CreateOptions& options, JoinRequest* request);
Status create_prepared(const JoinRequest& request, const CreateOptions& options, std::shared_ptr<Communicator>* comm);

/// A collective on `parent`. `color` < 0: takes part and gets nullptr.
Status split(Communicator& parent, int color, int key, const tuttiConfig_t* config,
             std::shared_ptr<Communicator>* comm);

}  // namespace tutti

// Grow: ranks of a communicator and newcomers make a larger one. An exchange among the ranks finds out whether they
// agree; then all join by an id that one of them made.
#pragma once

#include <memory>
#include <optional>

#include "comm/communicator.h"
#include "comm/create_options.h"
#include "comm/messages/unique_id.h"
#include "core/status.h"
#include "tutti/tutti.h"

namespace tutti {

/// Makes an id for one grow of `comm`, and serves it from this process. Local.
Status make_grow_id(Communicator& comm, IdBytes* id);
/// Ends the ids of `comm` that have not been used. Newcomers that wait get the reason. Does not wait; any thread.
void end_grow_ids(Communicator& comm) noexcept;

/// A rank's part in a grow.
struct GrowOptions {
  int ranks = 0;              ///< of the new communicator
  std::optional<IdBytes> id;  ///< which this rank made by make_grow_id(); exactly one rank has one
  CreateOptions created;      ///< of the new communicator, but for its size and the rank in it
};

/// Returns kInvalidArgument if the config is wrong. What the ranks have to agree on is left to grow().
Status read_grow(Communicator& parent, int ranks, const tuttiUniqueId* id, const tuttiConfig_t* config,
                 GrowOptions* options);
/// A collective on `parent`, whose ranks keep their numbers. If it fails before the join, the newcomers that have the
/// id get the reason as well.
Status grow(Communicator& parent, const GrowOptions& options, std::shared_ptr<Communicator>* comm);

}  // namespace tutti

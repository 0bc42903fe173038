// Shrink: the ranks that stay agree on who they are (comm/recovery), and join each other by an id that one of their
// processes serves. docs/design/recovery.md has the protocol.
#pragma once

#include <functional>
#include <memory>

#include "comm/communicator.h"
#include "comm/create_options.h"
#include "comm/recovery/number_set.h"
#include "core/status.h"
#include "tutti/tutti.h"

namespace tutti {

struct ShrinkOptions {
  NumberSet excluded;
  CreateOptions created;  ///< of the new communicator, but for its size and the rank in it
  double timeout = 0;     ///< for so many seconds it waits for live ranks that have not called; 0: for ever
  bool aborts = false;    ///< TUTTI_SHRINK_ABORT
  /// Whether the caller has aborted the parent. It is asked now and then.
  std::function<bool()> given_up;
};

/// Checks a caller's arguments. Returns kInvalidArgument if any is wrong.
Status read_shrink(Communicator& parent, const int* exclude, int count, const tuttiConfig_t* config, int flags,
                   ShrinkOptions* options);
/// Every rank that stays calls it; it takes no place in the order of calls. Blocks. If it fails, it may be called
/// again.
Status shrink(Communicator& parent, const ShrinkOptions& options, std::shared_ptr<Communicator>* comm);

}  // namespace tutti

// The options of a new communicator: the settings in force, the caller's config, and the rank's place in it.
#pragma once

#include <string>

#include "core/settings.h"
#include "core/status.h"
#include "tutti/tutti.h"

namespace tutti {

/// What a rank brings to a join besides the meeting point.
struct CreateOptions {
  int ranks = -1;
  int rank = -1;
  int device = -1;           ///< the device for device buffers; -1 for the calling thread's
  bool takes_device = true;  ///< whether the rank has one
  Settings settings;
  std::string name;
  std::string costs;  ///< the costs that rank 0 sends to all; empty for those in force on rank 0's host
};

/// Reads the settings in force, overlaid with `config` (may be NULL). Checks the config's magic and values.
Status read_options(const tuttiConfig_t* config, CreateOptions* options);
/// Overlays `config` on options that are there already, those of a split's parent.
Status apply_config(const tuttiConfig_t* config, CreateOptions* options);

}  // namespace tutti

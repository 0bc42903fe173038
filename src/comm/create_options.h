// What a new communicator is to be: the settings in force and the caller's config, and the rank's place in it.
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
  int device = -1;  ///< for device buffers; -1: the calling thread's
  Settings settings;
  std::string name;
  std::string costs;  ///< as rank 0 tells them to all; empty: those in force where rank 0 is
};

/// The settings in force, overlaid with `config` (may be NULL). Checks the config's magic and values.
Status read_options(const tuttiConfig_t* config, CreateOptions* options);
/// Overlays `config` on options that are there already (a split's parent).
Status apply_config(const tuttiConfig_t* config, CreateOptions* options);

}  // namespace tutti

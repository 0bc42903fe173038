// The launcher's own key-value store, PMIx or PMI-1, as a way for a unique id to reach all ranks.
#pragma once

#include <memory>
#include <string>

#include "comm/rendezvous/launcher.h"
#include "core/clock.h"

namespace tutti {

/// Open during one join. Every call blocks until it is done or the deadline has passed. One thread at a time.
class LauncherStore {
 public:
  virtual ~LauncherStore() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  /// Rank 0, once a key.
  virtual Status publish(const std::string& key, const std::string& value, Deadline deadline) = 0;
  /// The others.
  virtual Status fetch(const std::string& key, Deadline deadline, std::string* value) = 0;
};

/// For a launch with RendezvousMethod::kPmix or kPmi. A process has one connection to a PMI-1 server: joins take turns
/// there.
Status open_store(const ProcessLaunch& launch, Deadline deadline, std::unique_ptr<LauncherStore>* store);

/// Fills in rank and number of ranks where the environment does not tell. Blocks for a local question.
Status ask_launcher(ProcessLaunch* launch);

/// Reads the environment, and asks where it does not tell. Blocks as ask_launcher().
Status detect_launcher(LaunchInfo* info);

}  // namespace tutti

// The launcher's own key-value store, PMIx or PMI-1, through which a unique id can reach all ranks.
#pragma once

#include <memory>
#include <string>

#include "comm/rendezvous/launcher.h"
#include "core/clock.h"

namespace tutti {

/// A store is open during one join. Every call blocks until it is done or the deadline has passed. One thread at a
/// time.
class LauncherStore {
 public:
  virtual ~LauncherStore() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  /// Called by rank 0, once for each key.
  virtual Status publish(const std::string& key, const std::string& value, Deadline deadline) = 0;
  /// Called by the other ranks.
  virtual Status fetch(const std::string& key, Deadline deadline, std::string* value) = 0;
};

/// Opens the store of a launch with RendezvousMethod::kPmix or kPmi. A process has one connection to a PMI-1 server, so
/// joins take turns there.
Status open_store(const ProcessLaunch& launch, Deadline deadline, std::unique_ptr<LauncherStore>* store);

/// Asks the launcher's server for the rank and the number of ranks, if the environment does not have them. Blocks until
/// the server, which is local, answers.
Status ask_launcher(ProcessLaunch* launch);

/// Calls read_launch() and ask_launcher(), and blocks as long as the latter.
Status detect_launcher(LaunchInfo* info);

}  // namespace tutti

// The choices of algorithms that this process has made, so that communicators on equal machines predict no time twice.
#pragma once

#include <memory>
#include <vector>

#include "collectives/choice/automatic_choice.h"
#include "core/machine.h"
#include "core/mutex.h"
#include "core/status.h"

namespace tutti {

/// One per process (Hub::of_process). Any thread.
class AlgorithmCache {
 public:
  /// Gives the choice for such a machine. It lives as long as somebody uses it, and is kept for some time after that.
  static Status choice_for(const Machine& machine, std::shared_ptr<const AutomaticChoice>* choice);

 private:
  static constexpr std::size_t kKept = 32;
  std::shared_ptr<const AutomaticChoice> find(const Machine& machine) TUTTI_EXCLUDES(mutex_);

  Mutex mutex_;
  std::vector<std::shared_ptr<const AutomaticChoice>> choices_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti

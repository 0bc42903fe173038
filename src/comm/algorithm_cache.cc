#include "comm/algorithm_cache.h"

#include <algorithm>

#include "comm/membership/hub.h"

namespace tutti {

Status AlgorithmCache::choice_for(const Machine& machine, std::shared_ptr<const AutomaticChoice>* choice) {
  AlgorithmCache* accepted = nullptr;
  TUTTI_TRY(Hub::of_process(&accepted));
  *choice = accepted->find(machine);
  return {};
}

std::shared_ptr<const AutomaticChoice> AlgorithmCache::find(const Machine& machine) {
  const MutexLock lock(mutex_);
  const auto known = std::find_if(choices_.begin(), choices_.end(),
                                  [&machine](const auto& choice) { return choice->is_for(machine); });
  if (known != choices_.end()) return *known;
  if (choices_.size() >= kKept) std::erase_if(choices_, [](const auto& choice) { return choice.use_count() == 1; });
  choices_.push_back(std::make_shared<const AutomaticChoice>(machine));
  return choices_.back();
}

}  // namespace tutti

#include "comm/algorithm_cache.h"

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
  if (choices_.size() >= kKept && !choices_.contains(machine))
    std::erase_if(choices_, [](const auto& item) { return item.second.use_count() == 1; });
  std::shared_ptr<const AutomaticChoice>& choice = choices_[machine];
  if (!choice) choice = std::make_shared<const AutomaticChoice>(machine);
  return choice;
}

}  // namespace tutti

#include "comm/algorithm_cache.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/membership/hub.h"
#include "core/costs_file.h"

namespace tutti {
namespace {

std::string key_of(const Machine& machine) {
  return fmt::format("{} {} {} {} {} {} {} {} {}\n{}", machine.ranks, machine.lanes, machine.max_message.value,
                     machine.credits, machine.deterministic, machine.same_host_id, machine.network,
                     machine.same_boot_id, fmt::join(machine.hosts, ","), costs_text(machine.costs));
}

}  // namespace

Status AlgorithmCache::choice_for(const Machine& machine, std::shared_ptr<const AutomaticChoice>* choice) {
  AlgorithmCache* accepted = nullptr;
  TUTTI_TRY(Hub::of_process(&accepted));
  *choice = accepted->find(machine);
  return {};
}

std::shared_ptr<const AutomaticChoice> AlgorithmCache::find(const Machine& machine) {
  const std::string key = key_of(machine);
  const MutexLock lock(mutex_);
  if (choices_.size() >= kKept && !choices_.contains(key))
    std::erase_if(choices_, [](const auto& item) { return item.second.use_count() == 1; });
  std::shared_ptr<const AutomaticChoice>& choice = choices_[key];
  if (!choice) choice = std::make_shared<const AutomaticChoice>(machine);
  return choice;
}

}  // namespace tutti

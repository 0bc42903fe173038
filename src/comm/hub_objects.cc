#include "comm/hub_objects.h"

#include <map>
#include <mutex>
#include <vector>

namespace tutti {

namespace {

struct Objects {
  std::mutex mutex;
  std::map<std::uint64_t, std::weak_ptr<void>> by_communicator;
  std::vector<void*> kept;
};

// Never destroyed: communicators may outlive static objects.
Objects& objects() {
  static Objects* const instance = new Objects;
  return *instance;
}

}  // namespace

std::shared_ptr<void> hub_shared(std::uint64_t comm_id, const std::function<std::shared_ptr<void>()>& make) {
  Objects& all = objects();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.by_communicator, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<void>& known = all.by_communicator[comm_id];
  std::shared_ptr<void> object = known.lock();
  if (object == nullptr) known = object = make();
  return object;
}

void hub_keep(void* handle) {
  Objects& all = objects();
  const std::lock_guard lock(all.mutex);
  all.kept.push_back(handle);
}

}  // namespace tutti

#include "support/device/stand_in_mappings.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace tutti::test {

class StandInMappings::Pages {
 public:
  Pages(std::size_t bytes, bool apart) : bytes_(bytes), apart_(apart) {
    descriptor_ = ::memfd_create("tutti-test-mapping", MFD_CLOEXEC);
    if (descriptor_ < 0 || ::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) std::abort();
    first_ = show();
    std::memset(first_, 0xa5, bytes);  // nobody has zeroed it
  }
  ~Pages() {
    hide(first_);
    ::close(descriptor_);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  void* add_address() { return apart_ ? show() : first_; }
  void remove_address(void* address) const {
    if (apart_) hide(address);
  }
  /// By an address that is for loads from then on.
  void zero(void* address) const {
    std::memset(address, 0, bytes_);
    if (apart_) (void)::mprotect(address, bytes_, PROT_READ);
  }

 private:
  void* show() const {
    void* const memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    if (memory == MAP_FAILED) std::abort();
    return memory;
  }
  void hide(void* address) const { ::munmap(address, bytes_); }

  const std::size_t bytes_;
  const bool apart_;
  int descriptor_ = -1;
  void* first_ = nullptr;
};

void StandInMappings::set_multicast_devices(int devices) {
  const std::lock_guard lock(mutex_);
  multicast_devices_ = devices;
}
void StandInMappings::set_apart(bool apart) {
  const std::lock_guard lock(mutex_);
  apart_ = apart;
}
std::size_t StandInMappings::calls() {
  const std::lock_guard lock(mutex_);
  return calls_;
}
void StandInMappings::fail_call(std::size_t number) {
  const std::lock_guard lock(mutex_);
  failing_ = number == 0 ? 0 : calls_ + number;
}
std::size_t StandInMappings::count() {
  const std::lock_guard lock(mutex_);
  return items_.size() + mappings_.size();
}
std::size_t StandInMappings::objects() {
  const std::lock_guard lock(mutex_);
  return objects_;
}
std::vector<std::string> StandInMappings::faults() {
  const std::lock_guard lock(mutex_);
  return faults_;
}

Status StandInMappings::begin(const std::string& function) {
  TUTTI_TRY(before_(function));
  const std::lock_guard lock(mutex_);
  if (++calls_ == failing_) return fail(Code::kUnhandledCudaError, "{}: call {} fails", function, calls_);
  return {};
}

// Under the lock.
Status StandInMappings::wrong(const std::string& what) {
  faults_.push_back(what);
  return fail(Code::kUnhandledCudaError, "{}: invalid value", what);
}

bool StandInMappings::can_multicast(int device) {
  const std::lock_guard lock(mutex_);
  return device < multicast_devices_;
}

Status StandInMappings::granularity(std::span<const int>, bool multicast, Bytes* unit) {
  TUTTI_TRY(begin("granularity"));
  *unit = Bytes{multicast ? 2 * kUnit : kUnit};
  return {};
}

Status StandInMappings::create(int device, Bytes bytes, Handle* memory) {
  TUTTI_TRY(begin("create"));
  const std::lock_guard lock(mutex_);
  if (bytes.value == 0 || bytes.value % kUnit != 0) return wrong("create: size");
  *memory = ++last_;
  items_[last_] = Item{std::make_shared<Pages>(bytes.value, apart_), bytes.value, {device}, {}, false};
  return {};
}

Status StandInMappings::create_multicast(std::span<const int> devices, Bytes bytes, Handle* object) {
  TUTTI_TRY(begin("create_multicast"));
  const std::lock_guard lock(mutex_);
  const std::set<int> team(devices.begin(), devices.end());
  if (team.size() != devices.size() || *team.rbegin() >= multicast_devices_) return wrong("create_multicast: devices");
  if (bytes.value == 0 || bytes.value % (2 * kUnit) != 0) return wrong("create_multicast: size");
  *object = ++last_;
  ++objects_;
  items_[last_] = Item{std::make_shared<Pages>(bytes.value, apart_), bytes.value, team, {}, true};
  return {};
}

Status StandInMappings::release(Handle handle) {
  const std::lock_guard lock(mutex_);
  const auto found = items_.find(handle);
  if (found == items_.end()) return wrong("release: handle");
  if (!found->second.bound.empty()) return wrong("release: memory is bound to it");
  items_.erase(found);
  return {};
}

Status StandInMappings::bind(Handle object, int device, Handle memory, Bytes bytes) {
  TUTTI_TRY(begin("bind"));
  const std::lock_guard lock(mutex_);
  Item& team = items_.at(object);
  Item& own = items_.at(memory);
  const bool fits = team.is_object && !own.is_object && own.bytes == bytes.value && team.bytes == bytes.value;
  if (!fits || own.devices != std::set<int>{device} || !team.devices.contains(device)) return wrong("bind: what");
  if (!team.bound.insert(device).second) return wrong("bind: twice");
  own.pages = team.pages;
  return {};
}

Status StandInMappings::unbind(Handle object, int device, Bytes bytes) {
  const std::lock_guard lock(mutex_);
  Item& team = items_.at(object);
  if (team.bytes != bytes.value || team.bound.erase(device) != 1) return wrong("unbind: what");
  return {};
}

Status StandInMappings::map(Handle handle, Bytes bytes, std::span<const int> devices, void** address) {
  TUTTI_TRY(begin("map"));
  const std::lock_guard lock(mutex_);
  const Item& item = items_.at(handle);
  if (item.bytes != bytes.value || devices.empty()) return wrong("map: what");
  for (const int device : devices)
    if (item.is_object && !item.devices.contains(device)) return wrong("map: a device that was not added");
  *address = item.pages->add_address();
  Mapping& mapping = mappings_[*address];
  mapping.pages = item.pages;
  mapping.bytes = bytes.value;
  ++mapping.uses;
  return {};
}

Status StandInMappings::unmap(void* address, Bytes bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = mappings_.find(address);
  if (found == mappings_.end() || found->second.bytes != bytes.value) return wrong("unmap: address");
  found->second.pages->remove_address(address);
  if (--found->second.uses == 0) mappings_.erase(found);
  return {};
}

Status StandInMappings::zero(int, void* address, Bytes bytes) {
  TUTTI_TRY(begin("zero"));
  const std::lock_guard lock(mutex_);
  const auto found = mappings_.find(address);
  if (found == mappings_.end() || found->second.bytes != bytes.value) return wrong("zero: address");
  found->second.pages->zero(address);
  return {};
}

}  // namespace tutti::test

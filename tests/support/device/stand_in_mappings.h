// The stand-in's memory apart from its addresses, and its multicast objects. A processor has no store that lands in
// several memories: what is bound to an object becomes the object's own memory. All of it is known by one address, so
// that the thread sanitizer sees what is ordered; or each mapping has an address of its own, and what is for loads
// cannot be written.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "device/device_mappings.h"

namespace tutti::test {

class StandInMappings final : public DeviceMappings {
 public:
  static constexpr std::size_t kUnit = 8192;

  /// `before`: asked by each function that may fail.
  explicit StandInMappings(std::function<Status(const std::string& function)> before) : before_(std::move(before)) {}

  /// Devices from this number on have no multicast; 0: none has.
  void set_multicast_devices(int devices);
  /// From now on each mapping has an address of its own.
  void set_apart(bool apart);
  /// Calls so far that may fail; the one of that number, counted from now on, fails. 0: none.
  std::size_t calls();
  void fail_call(std::size_t number);
  /// Memory, objects and mappings that are there.
  std::size_t count();
  /// Objects made so far.
  std::size_t objects();
  /// What was done wrong, as CUDA would say in an error that nobody looks at.
  std::vector<std::string> faults();

  bool can_multicast(int device) override;
  Status granularity(std::span<const int> devices, bool multicast, Bytes* unit) override;
  Status create(int device, Bytes bytes, Handle* memory) override;
  Status create_multicast(std::span<const int> devices, Bytes bytes, Handle* object) override;
  Status release(Handle handle) override;
  Status bind(Handle object, int device, Handle memory, Bytes bytes) override;
  Status unbind(Handle object, int device, Bytes bytes) override;
  Status map(Handle handle, Bytes bytes, std::span<const int> devices, void** address) override;
  Status unmap(void* address, Bytes bytes) override;
  Status zero(int device, void* address, Bytes bytes) override;

 private:
  /// Pages that several mappings may show.
  class Pages;
  struct Item {
    std::shared_ptr<Pages> pages;
    std::size_t bytes = 0;
    std::set<int> devices;  // of an object: those added; of memory: its own
    std::set<int> bound;    // of an object
    bool is_object = false;
  };
  struct Mapping {
    std::shared_ptr<Pages> pages;
    std::size_t bytes = 0;
    std::size_t uses = 0;
  };
  Status begin(const std::string& function);
  Status wrong(const std::string& what);

  const std::function<Status(const std::string&)> before_;
  std::mutex mutex_;  // guards what follows
  int multicast_devices_ = 0;
  bool apart_ = false;
  std::size_t calls_ = 0;
  std::size_t failing_ = 0;
  std::size_t objects_ = 0;
  Handle last_ = 0;
  std::map<Handle, Item> items_;
  std::map<void*, Mapping> mappings_;
  std::vector<std::string> faults_;
};

}  // namespace tutti::test

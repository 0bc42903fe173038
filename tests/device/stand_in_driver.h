// A stand-in for a GPU: device memory is host memory, streams are queues with a thread each, kernels run as threads. It
// is what device_driver() gives in this program.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "transport/device_driver.h"

namespace tutti::test {

class StandInDriver final : public DeviceDriver {
 public:
  StandInDriver();
  ~StandInDriver() override;

  /// Devices that the process sees; 0: it has no driver.
  void set_devices(int devices) { devices_ = devices; }
  /// The calling thread's device; -1: it has used none.
  static void use(int device);
  /// Any memory counts as that of the calling thread's device, so that tests of host memory run on the device.
  void take_all_memory(bool all) { all_memory_ = all; }
  /// The calling thread's own memory is none of these.
  static void take_host_memory(bool host);
  /// Device memory that is allocated from now on cannot be touched but through the driver.
  void hide_memory(bool hide) { hide_memory_ = hide; }
  /// Where it is.
  std::byte* reveal(const void* memory);
  /// Pairs of different devices do not reach each other.
  void cut_peers(bool cut) { cut_peers_ = cut; }
  /// Kernels are started and do nothing.
  void skip_kernels(bool skip) { skip_kernels_ = skip; }
  /// The next call of that name fails with such a text.
  void fail_next(const std::string& function, const std::string& text);
  /// What was allocated and not released.
  std::size_t allocations();
  std::size_t launches() const { return launches_; }

  int devices() override { return devices_; }
  int current_device() override;
  Status limits(int device, Limits* limits) override;
  Status allocate(int device, Bytes bytes, void** memory) override;
  Status release(int device, void* memory) override;
  Status allocate_shared(Bytes bytes, void** memory) override;
  Status release_shared(void* memory) override;
  Place place_of(const void* memory) override;
  Status create_stream(int device, Stream* stream) override;
  Status synchronize(Stream stream) override;
  Status destroy_stream(Stream stream) override;
  Stream default_stream() override;
  Status create_event(int device, Event* event) override;
  Status destroy_event(Event event) override;
  Status record(int device, Event event, Stream stream) override;
  Status wait(int device, Stream stream, Event event) override;
  Status query(Event event, bool* done) override;
  Status copy(int device, void* to, const void* from, Bytes bytes, Stream stream) override;
  Status copy_rows(int device, void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                   std::size_t width, std::size_t rows, Stream stream) override;
  Status wait_for_word(int device, Stream stream, std::uint64_t* word, std::uint64_t value) override;
  Status write_word(int device, Stream stream, std::uint64_t* word, std::uint64_t value) override;
  Status reach(int device, int peer, bool* reachable) override;
  Status load(int device) override;
  Status launch(int device, Stream stream, const DeviceCall& call) override;

  /// Puts work of the test's own on a stream.
  static void put(Stream stream, std::function<void()> work);

 private:
  struct Memory {
    std::size_t bytes;
    int device;                 // -1: shared with the host
    std::byte* real = nullptr;  // of hidden memory
  };
  const Memory* find(const void* memory, const std::byte** begin);
  Status failure(const std::string& function);
  Status take(std::size_t bytes, int device, void** memory);
  Status give_back(void* memory);
  bool knows(const void* memory, std::size_t bytes);

  std::atomic<int> devices_{1};
  std::atomic<bool> all_memory_{false};
  std::atomic<bool> hide_memory_{false};
  std::atomic<bool> cut_peers_{false};
  std::atomic<bool> skip_kernels_{false};
  std::atomic<std::size_t> launches_{0};
  std::mutex mutex_;
  std::map<const std::byte*, Memory> memories_;
  std::map<std::string, std::string> failures_;
  Stream default_stream_ = nullptr;
};

StandInDriver& stand_in();

}  // namespace tutti::test

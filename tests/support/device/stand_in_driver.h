// A stand-in for a GPU: device memory is host memory, hardware queues have a thread each and are shared by streams,
// kernels run as threads. It is what device_driver() gives in this program.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "device/device_driver.h"
#include "executor/device/device_launch.h"
#include "support/device/stand_in_mappings.h"
#include "support/device/stand_in_queue.h"

namespace tutti::test {

class StandInDriver final : public DeviceDriver {
 public:
  StandInDriver();
  ~StandInDriver() override;

  /// Devices that the process sees; 0: it has no driver.
  void set_devices(int devices) { devices_ = devices; }
  /// The process has not used the driver, until somebody asks for it.
  void forget_use() { used_ = false; }
  bool is_used() const { return used_; }
  void take_use() { used_ = true; }
  /// The calling thread's device; -1: it has used none.
  static void use(int device);
  /// Any memory counts as that of the calling thread's device, so that tests of host memory run on the device.
  void take_all_memory(bool all) { all_memory_ = all; }
  /// The calling thread's own memory is none of these.
  static void take_host_memory(bool host);
  /// Device memory that is allocated from now on cannot be touched but through the driver.
  void hide_memory(bool hide) { hide_memory_ = hide; }
  /// Device memory that the processor may use, too, and any device. `begin`: of what was allocated.
  void manage(const void* begin);
  /// Where it is.
  std::byte* reveal(const void* memory);
  /// Pairs of different devices do not reach each other.
  void cut_peers(bool cut) { cut_peers_ = cut; }
  /// Hardware queues of a device from now on, which streams share; 0: each has one of its own. No stream may be there.
  void set_connections(int connections);
  /// From now on it does what a driver may do at its worst. Its streams share that many hardware queues, those of the
  /// highest priority others than the rest. What allocates, frees, unmaps and makes streams waits for all kernels of
  /// the process and keeps the lock that all calls take, while otherwise what frees waits for those of its device,
  /// without the lock. Copies to and from memory that is not pinned end before the call does; and nobody puts more than
  /// HardwareQueue::kRoom pieces of work into a queue. No stream may be there. The variable TUTTI_TEST_STRICT_DEVICE
  /// makes it so from the beginning, with as many queues as it says.
  void be_strict(int connections);
  bool is_strict() const { return strict_; }
  /// Multiprocessors of a device, each of which runs one thread block at a time. No kernel may be there.
  void set_processors(int processors);
  /// Kernels are started and do nothing.
  void skip_kernels(bool skip) { skip_kernels(0, skip ? ~std::size_t{0} : 0); }
  /// So many, after so many others.
  void skip_kernels(std::size_t after, std::size_t count) {
    skipped_from_ = launches_ + after;
    skipped_count_ = count;
  }
  /// The first word of what a kernel returns is wrong.
  void damage_results(bool damage) { damage_results_ = damage; }
  /// The next call of that name fails with such a text.
  void fail_next(const std::string& function, const std::string& text);
  /// In each call of that name, of any thread, this is done first.
  void before_each(const std::string& function, std::function<void()> action);
  /// What was to fail and was not called.
  void forget_failures();
  /// Device 0 is the host's GPU number `gpu`, and so on; other processes know them by these numbers. From now on memory
  /// is allocated so that it can be exported.
  void be_seen_as(int gpu);
  /// Kernels of several processes run on a GPU at the same time.
  void set_mps(bool on) { mps_ = on; }
  /// Whether memory is to be had apart from addresses.
  void set_maps_memory(bool maps) { maps_memory_ = maps; }
  /// What was allocated or mapped and not released.
  std::size_t allocations();
  /// Those of device memory.
  std::size_t device_allocations();
  std::size_t launches() const { return launches_; }
  /// Those so far whose messages could lie in the callers' buffers.
  std::size_t lending_launches() const { return lending_launches_; }
  /// Other processes' memory that is mapped now.
  std::size_t mappings();
  /// Calls so far that may wait for running kernels.
  std::size_t waits_for_kernels() const { return waits_for_kernels_; }
  /// How often each function was called so far that would call CUDA, by its name.
  std::map<std::string, std::size_t> calls();
  /// Copies so far from or to host memory that is not pinned, which may end before the call does.
  std::size_t pageable_copies() const { return pageable_copies_; }
  /// Looks at events so far.
  std::size_t queries() const { return queries_; }
  /// Streams so far that came to wait for a word of memory that was released.
  std::size_t lost_waits() const { return lost_waits_; }

  int devices() override { return devices_; }
  int current_device() override;
  Status limits(int device, Limits* limits) override;
  Status identify(int device, Identity* identity) override;
  Status allocate(int device, Bytes bytes, void** memory) override;
  Status release(int device, void* memory) override;
  Status allocate_pooled(int device, Bytes bytes, void** memory) override;
  Status release_pooled(int device, void* memory) override;
  Status export_memory(int device, void* memory, Handle* handle) override;
  Status open_memory(int device, const Handle& handle, void** memory) override;
  Status close_memory(int device, void* memory) override;
  Status allocate_pinned(Bytes bytes, void** memory) override;
  Status release_pinned(void* memory) override;
  Place place_of(const void* memory) override;
  Place place_of(const void* memory, Allocation* allocation) override;
  Status create_stream(int device, Stream* stream) override;
  /// A stream of the caller's, which has no priority.
  Status create_caller_stream(int device, Stream* stream);
  Status synchronize(Stream stream) override;
  Status destroy_stream(Stream stream) override;
  Stream default_stream() override;
  Stream per_thread_stream() override;
  Status find_traits(Stream stream, StreamTraits* traits) override;
  Status create_event(int device, Event* event) override;
  Status destroy_event(Event event) override;
  Status record(int device, Event event, Stream stream) override;
  Status wait(int device, Stream stream, Event event) override;
  Status query(Event event, bool* done) override;
  Status capture_of(Stream stream, std::uint64_t* capture) override;
  Status copy(int device, void* to, const void* from, Bytes bytes, Stream stream) override;
  Status copy_rows(int device, void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                   std::size_t width, std::size_t rows, Stream stream) override;
  Status wait_for_word(int device, Stream stream, std::uint64_t* word, std::uint64_t value) override;
  Status write_word(int device, Stream stream, std::uint64_t* word, std::uint64_t value) override;
  Status reach(int device, int peer, bool* reachable) override;
  StandInMappings* virtual_memory() override { return maps_memory_ ? &mappings_ : nullptr; }
  Status load(int device, std::span<const Kernel* const> kernels) override;
  Status launch(int device, Stream stream, const Kernel& kernel, unsigned blocks, const void* parameter) override;

  /// Puts work of the test's own on a stream.
  static void put(Stream stream, std::function<void()> work);
  /// While it is there, what this thread allocates and frees counts as allocated before the first kernel and freed
  /// after the last: it waits for none, and what it frees goes when the kernels that are there then have ended. So a
  /// test that is about something else may allocate anywhere.
  class Early {
   public:
    Early();
    ~Early();
    Early(const Early&) = delete;
    Early& operator=(const Early&) = delete;
  };

  /// What is put on the stream from now on, and on streams that wait for it, is captured, not run.
  void begin_capture(Stream stream);
  /// `streams`: all that were captured, the first one first. Not ok: something was done that ends a capture.
  Status end_capture(const std::vector<Stream>& streams, std::shared_ptr<const Graph>* graph);
  static void launch(const std::shared_ptr<const Graph>& graph, Stream stream);

 private:
  struct Memory {
    std::size_t bytes;
    int device;                 // -1: shared with the host
    std::byte* real = nullptr;  // of hidden memory
    int descriptor = -1;        // of memory that can be exported
    bool foreign = false;       // another process's
    bool managed = false;
    std::uint64_t id = 0;
    bool pooled = false;           // allocate_pooled() gave it
    std::uint64_t origin[3] = {};  // of foreign memory: its process, its address there and its id
  };
  /// What was freed before these kernels have ended.
  struct LateFree {
    std::vector<Marked> kernels;
    void* address;
    Memory memory;
  };
  using CallLock = std::unique_lock<std::mutex>;
  const Memory* find(const void* memory, const std::byte** begin);
  struct DeviceQueues {
    std::vector<std::shared_ptr<HardwareQueue>> queues;
    std::size_t next = 0;
  };
  Status failure(const std::string& function);
  /// Every function of the interface that would call CUDA calls this first.
  void count(const char* function);
  Status run(int device, Stream stream, const DeviceCall& call);
  Status run(Stream stream, const DevicePass& pass);
  Status run(int device, Stream stream, RowsCopy copy);
  Status check_rows(int device, const void* to, const void* from);
  std::shared_ptr<HardwareQueue> next_queue(int device, bool high);
  static bool is_early();
  CallLock begin_call();
  CallLock begin_waiting_call();
  CallLock begin_free(int device);
  CallLock begin_work(Stream stream);
  void put_kernel(Stream stream, std::function<void()> work);
  std::shared_ptr<Processors> processors_of(int device);
  static Status check_device(int device, Stream stream, const char* function);
  void put_locked(Stream stream, std::function<void()> work);
  bool is_captured(Stream stream);
  static Status spoil(Capture* capture, const std::string& function);
  bool is_under_way(const Capture& capture) const;
  Status take(std::size_t bytes, int device, void** memory);
  static bool is_in_the_way(const Memory& memory, const std::uint64_t (&origin)[3]);
  Status take_shared(std::size_t bytes, int device, void** memory);
  static void unmap(void* memory, std::size_t bytes, int descriptor);
  static void free_now(void* address, const Memory& memory);
  Status give_back(void* memory);
  void sweep_late_frees();
  bool knows(const void* memory, std::size_t bytes);
  bool has_come(const std::uint64_t* word, std::uint64_t value);

  std::atomic<int> devices_{1};
  std::atomic<bool> used_{true};
  std::atomic<bool> all_memory_{false};
  std::atomic<bool> hide_memory_{false};
  std::atomic<bool> cut_peers_{false};
  std::atomic<std::size_t> skipped_from_{0};
  std::atomic<std::size_t> skipped_count_{0};
  std::atomic<bool> damage_results_{false};
  std::atomic<bool> mps_{false};
  std::atomic<bool> maps_memory_{true};
  std::atomic<int> first_gpu_{-1};
  std::atomic<std::size_t> launches_{0};
  std::atomic<std::size_t> lending_launches_{0};
  std::atomic<std::size_t> waits_for_kernels_{0};
  std::atomic<std::size_t> queries_{0};
  std::atomic<std::size_t> pageable_copies_{0};
  std::mutex counting_;
  std::map<std::string, std::size_t> counts_;
  std::atomic<std::size_t> lost_waits_{0};
  std::mutex mutex_;
  std::map<const std::byte*, Memory> memories_;
  std::vector<LateFree> late_frees_;
  std::uint64_t last_memory_ = 0;
  std::set<std::pair<int, const Kernel*>> loaded_;  // with the device that they are loaded for
  std::map<std::string, std::string> failures_;
  std::map<std::string, std::function<void()>> actions_;
  Stream default_stream_ = nullptr;
  std::atomic<int> connections_{0};
  std::atomic<bool> strict_{false};
  int strict_connections_ = 0;
  std::mutex calls_;  // which a strict driver's calls take
  RunningKernels kernels_;
  std::map<std::pair<int, bool>, DeviceQueues> queues_;  // by device and whether its streams have priority
  int processor_count_ = 8;
  std::map<int, std::shared_ptr<Processors>> processors_;  // by device
  std::vector<std::shared_ptr<Capture>> captures_;         // under way
  std::uint64_t last_capture_ = 0;
  StandInMappings mappings_{[this](const std::string& function) { return failure(function); }};
};

/// A forked child has one of its own.
StandInDriver& stand_in();
/// Whether this process has made it.
bool is_stand_in_there();
/// Ends it with its threads; nothing that it gave may be there. The next call of stand_in() makes another.
void end_stand_in();

}  // namespace tutti::test

// What Tutti needs of a GPU's runtime, and nothing else. The real one is device/cuda_driver.cc; tests bring one that
// takes host memory for device memory and threads for thread blocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/memory.h"
#include "core/status.h"
#include "core/units.h"

namespace tutti {

class DeviceMappings;

/// What a launch needs to know of a kernel. There is one object for each kernel, so drivers may tell kernels apart by
/// its address.
struct Kernel {
  const void* (*cuda)();  ///< what the CUDA runtime launches; gives nullptr if the library was built without CUDA
  unsigned threads;       ///< of a block
  const char* task;       ///< for the texts of errors, such as "launching a collective"
};

/// All functions are thread-safe, leave the thread's current device as it was, and report failures of the runtime as
/// kUnhandledCudaError with its text. Only those that say so block.
class DeviceDriver {
 public:
  using Stream = void*;
  using Event = void*;

  using Place = MemoryPlace;
  using Allocation = DeviceRange;
  /// What bounds the thread blocks that can be resident together.
  struct Limits {
    int processors = 0;           ///< how many multiprocessors it has
    int connections = 0;          ///< how many streams run side by side
    bool launches_block = false;  ///< a launch returns when the kernel has ended (CUDA_LAUNCH_BLOCKING)
  };

  /// What decides which streams wait for one another.
  struct StreamTraits {
    int device = -1;       ///< -1: it is not known, or the stream runs on the device of the call, whichever that is
    bool is_apart = true;  ///< the stream and the default stream do not wait for each other
  };

  /// What other processes know a device by.
  struct Identity {
    std::array<std::byte, 16> uuid{};   ///< the same in all processes
    bool concurrent_processes = false;  ///< kernels of several processes run on it at the same time (MPS)
  };
  /// What a process makes of an allocation so that another one can map it. Plain bytes.
  using Handle = std::array<std::byte, 64>;

  virtual ~DeviceDriver() = default;

  /// How many devices there are; 0 also if there is no driver.
  virtual int devices() = 0;
  /// The calling thread's device, or -1 if the process has not begun to use it.
  virtual int current_device() = 0;
  virtual Status limits(int device, Limits* limits) = 0;
  virtual Status identify(int device, Identity* identity) = 0;

  /// Zeroed device memory; blocks. May wait for running kernels, so not while peers' kernels wait for this rank.
  virtual Status allocate(int device, Bytes bytes, void** memory) = 0;
  virtual Status release(int device, void* memory) = 0;
  /// Makes a handle of what allocate() gave, or of the first byte of an exportable allocation. It is good until the
  /// memory is released, which comes after all processes have closed it.
  virtual Status export_memory(int device, void* memory, Handle* handle) = 0;
  /// Maps what another process exported, for kernels of `device`; the memory may be that of a device which this process
  /// does not see. Opening is counted: a handle that is open already gives the same address again, and is closed as
  /// often as it was opened. The memory stays mapped when the other process dies.
  virtual Status open_memory(int device, const Handle& handle, void** memory) = 0;
  /// May wait for running kernels.
  virtual Status close_memory(int device, void* memory) = 0;
  /// Allocates memory that no other device and no other process can use, and that is not zeroed. May be called at any
  /// time, as it waits for no kernel.
  virtual Status allocate_pooled(int device, Bytes bytes, void** memory) = 0;
  /// Gives back what allocate_pooled() gave, which no kernel uses any more. Waits for no kernel either.
  virtual Status release_pooled(int device, void* memory) = 0;
  /// Zeroed host memory that kernels of all devices reach at the same address.
  virtual Status allocate_pinned(Bytes bytes, void** memory) = 0;
  virtual Status release_pinned(void* memory) = 0;
  virtual Place place_of(const void* memory) = 0;
  /// Returns what place_of() does. If that is memory of one device, also describes the allocation that it belongs to,
  /// whoever made it, else clears `allocation`.
  virtual Place place_of(const void* memory, Allocation* allocation) = 0;

  virtual Status create_stream(int device, Stream* stream) = 0;
  /// Blocks until the work on the stream has ended.
  virtual Status synchronize(Stream stream) = 0;
  virtual Status destroy_stream(Stream stream) = 0;
  /// The stream that work goes to for which no stream is named.
  virtual Stream default_stream() = 0;
  /// A handle that stands for another stream in each thread.
  virtual Stream per_thread_stream() = 0;
  /// Any stream may be looked at, also one that is captured. Begins to use no device.
  virtual Status find_traits(Stream stream, StreamTraits* traits) = 0;
  virtual Status create_event(int device, Event* event) = 0;
  virtual Status destroy_event(Event event) = 0;
  virtual Status record(int device, Event event, Stream stream) = 0;
  /// What is put on `stream` from now on waits for what `event` recorded last.
  virtual Status wait(int device, Stream stream, Event event) = 0;
  virtual Status query(Event event, bool* done) = 0;
  /// `capture` becomes 0 if what is put on the stream runs, or a number that no other capture of the process has if it
  /// is captured into a graph, to be run as often as the graph is launched. What the other functions here put on such a
  /// stream is captured, too, so copy() must not be given memory that may be gone when the graph runs; an event
  /// recorded there is of use in that capture only. Fails with kInvalidUsage if the stream takes nothing while others
  /// are captured; their captures go on.
  virtual Status capture_of(Stream stream, std::uint64_t* capture) = 0;
  /// Copies in the order of the stream, between any two places.
  virtual Status copy(int device, void* to, const void* from, Bytes bytes, Stream stream) = 0;

  /// Copies `rows` pieces (at least 1) of `width` bytes each, whose starts lie `to_pitch` and `from_pitch` bytes apart,
  /// between memory of the device and memory of allocate_pinned().
  virtual Status copy_rows(int device, void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                           std::size_t width, std::size_t rows, Stream stream) = 0;
  /// What is put on `stream` from now on waits until the word, of shared memory, is at least `value`.
  virtual Status wait_for_word(int device, Stream stream, std::uint64_t* word, std::uint64_t value) = 0;
  /// Stores the word, of shared memory or of the device's, when the stream comes to this point.
  virtual Status write_word(int device, Stream stream, std::uint64_t* word, std::uint64_t value) = 0;

  /// Makes memory of `peer` usable by kernels of `device`; `reachable` becomes false if that is not possible.
  virtual Status reach(int device, int peer, bool* reachable) = 0;
  /// Returns nullptr if this driver cannot allocate memory without an address and map it later.
  virtual DeviceMappings* virtual_memory() = 0;
  /// Makes the device ready for kernels and loads these, so that no launch has to.
  virtual Status load(int device, std::span<const Kernel* const> kernels) = 0;
  /// Runs `blocks` thread blocks of a kernel on the stream. `parameter` points to the kernel's one argument, which is
  /// copied before this returns.
  virtual Status launch(int device, Stream stream, const Kernel& kernel, unsigned blocks, const void* parameter) = 0;
};

/// The process's driver; nullptr if this library was built without one or the system has no device. The first call may
/// take long, because the driver looks for its devices then. Any thread.
DeviceDriver* device_driver();
/// Like device_driver(), but never starts the driver: returns nullptr until some library of the process has started it.
/// Until then no memory can be a device's. Costs nanoseconds. Any thread.
DeviceDriver* device_driver_in_use();
/// Whether the process could begin to use a device. Costs a system call or two. Any thread.
bool may_have_device();

}  // namespace tutti

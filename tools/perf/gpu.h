// What tutti-perf needs of a GPU's runtime beside the library: CUDA's (cuda_gpu.cc), none (no_gpu.cc), or a test's own.
#pragma once

#include <tutti/tutti.h>

#include <cstddef>
#include <string>

namespace tutti::perf {

/// Any thread; what is made belongs to the calling thread's device. A failure is tuttiUnhandledCudaError, and
/// gpu_fault() then has its text. Only those that say so block.
class Gpu {
 public:
  using Stream = void*;
  using Event = void*;
  using Graph = void*;

  virtual ~Gpu() = default;

  virtual int devices() = 0;
  virtual std::string name(int device) = 0;
  /// The calling thread's device from now on, which the process begins to use with it. May block.
  virtual tuttiResult_t use(int device) = 0;
  /// Bytes of the thread's device that nobody has allocated.
  virtual tuttiResult_t free_memory(std::size_t* bytes) = 0;

  /// Without order to the default stream.
  virtual tuttiResult_t create_stream(Stream* stream) = 0;
  virtual void destroy_stream(Stream stream) = 0;
  /// Blocks until its work has ended.
  virtual tuttiResult_t synchronize(Stream stream) = 0;
  /// Between host and device memory in any direction, in the order of the stream. Host memory stays as it is until
  /// then.
  virtual tuttiResult_t copy(void* to, const void* from, std::size_t bytes, Stream stream) = 0;
  /// Zeros, in the order of the stream.
  virtual tuttiResult_t clear(void* memory, std::size_t bytes, Stream stream) = 0;

  virtual tuttiResult_t create_event(Event* event) = 0;
  virtual void destroy_event(Event event) = 0;
  virtual tuttiResult_t record(Event event, Stream stream) = 0;
  /// Blocks until what it recorded last has come; at once if it recorded nothing.
  virtual tuttiResult_t wait_for(Event event) = 0;
  /// Of two that have come.
  virtual tuttiResult_t seconds_between(Event first, Event second, double* seconds) = 0;

  /// What this thread puts on the stream from now on is kept instead of run.
  virtual tuttiResult_t begin_capture(Stream stream) = 0;
  /// Ends it, whatever happened since: a graph that can be run, or an error and none.
  virtual tuttiResult_t end_capture(Stream stream, Graph* graph) = 0;
  virtual tuttiResult_t run(Graph graph, Stream stream) = 0;
  virtual void destroy_graph(Graph graph) = 0;
};

/// The process's; nullptr: `why` says what is missing. The first call may take long. Any thread.
Gpu* find_gpu(std::string* why);

/// The text of the calling thread's last failure of a Gpu; empty: there was none.
std::string& gpu_fault();

}  // namespace tutti::perf

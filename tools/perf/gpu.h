// What tutti-perf needs of a GPU's runtime besides the library. The runtime is CUDA's (cuda_gpu.cc), none (no_gpu.cc),
// or a test's own.
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
  /// Makes it the calling thread's device; the process begins to use it. May block.
  virtual tuttiResult_t use(int device) = 0;
  /// How much memory of the thread's device nobody has allocated.
  virtual tuttiResult_t free_memory(std::size_t* bytes) = 0;

  /// The stream and the default stream do not wait for each other.
  virtual tuttiResult_t create_stream(Stream* stream) = 0;
  virtual void destroy_stream(Stream stream) = 0;
  /// Blocks until the work on the stream has ended.
  virtual tuttiResult_t synchronize(Stream stream) = 0;
  /// Copies between host and device memory in any direction, in the order of the stream. Host memory stays as it is
  /// until then.
  virtual tuttiResult_t copy(void* to, const void* from, std::size_t bytes, Stream stream) = 0;
  /// Fills with zeros, in the order of the stream.
  virtual tuttiResult_t clear(void* memory, std::size_t bytes, Stream stream) = 0;

  virtual tuttiResult_t create_event(Event* event) = 0;
  virtual void destroy_event(Event event) = 0;
  virtual tuttiResult_t record(Event event, Stream stream) = 0;
  /// Blocks until the stream has come to what the event recorded last; returns at once if it recorded nothing.
  virtual tuttiResult_t wait_for(Event event) = 0;
  /// The time between two events that their stream has come to.
  virtual tuttiResult_t seconds_between(Event first, Event second, double* seconds) = 0;

  /// What this thread puts on the stream from now on is captured instead of run.
  virtual tuttiResult_t begin_capture(Stream stream) = 0;
  /// Ends the capture, whatever has happened since. Gives a graph that can be run, or an error and no graph.
  virtual tuttiResult_t end_capture(Stream stream, Graph* graph) = 0;
  virtual tuttiResult_t run(Graph graph, Stream stream) = 0;
  virtual void destroy_graph(Graph graph) = 0;
};

/// The process's Gpu; if it is nullptr, `why` says what is missing. The first call may take long. Any thread.
Gpu* find_gpu(std::string* why);

/// The text of the calling thread's last failure of a Gpu; empty if there was none.
std::string& gpu_fault();

}  // namespace tutti::perf

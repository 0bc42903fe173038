// One rank's part of the benchmark on device buffers (-g).
//
// Method. Each rank has a CUDA stream, and calls are put there back to back. Time is measured by CUDA events on the
// rank's stream, from the end of an untimed operation, which brings the ranks together, to the end of the last. With
// --cudagraph N a graph of N captured calls is replayed instead, and times are divided by N. Minimum and percentiles
// come from a second series with an event after each operation (or replay). With -z 1 calls block, and the host's clock
// measures each. The floor is the time that the bytes alone would take: those that the ranks of a device must read and
// write, divided by the rate at which it copies between two of its buffers, which is measured when the run begins.
#pragma once

#include <string>
#include <vector>

#include "gpu.h"
#include "measure.h"

namespace tutti::perf {

/// What the run's devices are.
struct GpuFacts {
  struct Device {
    std::string name;
    double copy_rate = 0;  ///< bytes read and written a second; 0 if not known
  };
  std::vector<Device> devices;
};

class GpuBench final : public Bench {
 public:
  /// Borrows `comm`, `options` and `gpu`. The calling thread uses the rank's device.
  GpuBench(tuttiComm_t comm, int rank, int ranks, const Options& options, Gpu& gpu);
  ~GpuBench() override;

  bool allocate(std::size_t bytes) override;
  const GpuFacts& facts() const { return facts_; }

 private:
  class Graph;
  class Events;
  /// Something that is put on the stream again and again.
  struct Work;

  tuttiResult_t try_once(const Row& row, const Call& call, const Check& check, bool in_place,
                         std::uint64_t* wrong) override;
  tuttiResult_t clear(const Row& row) override;
  tuttiResult_t take_times(const Call& call, const Buffers& bound, Timing* timing) override;
  tuttiResult_t find_floor(const Row& row, const Call& call, bool in_place, double* seconds) override;
  tuttiResult_t name_paths(const Row& row, RowResult* result) override;
  std::string cause() const override;

  tuttiResult_t open();
  tuttiResult_t take_memory(std::size_t bytes);
  tuttiResult_t measure_copies();
  tuttiResult_t measure_copy(double* rate);
  tuttiResult_t make_once(const Call& call, const Buffers& bound, bool again);
  tuttiResult_t capture(const Call& call, const Buffers& bound, int calls, Graph* graph);
  tuttiResult_t choose_repeats(const Work& work, int* repeats);
  tuttiResult_t run_series(const Work& work, int repeats, double* seconds);
  tuttiResult_t run_singly(const Work& work, int repeats, std::vector<double>* samples);
  tuttiResult_t settle() const;

  Gpu& gpu_;
  const int device_;
  Gpu::Stream cuda_ = nullptr;
  tuttiStream_t stream_ = nullptr;
  std::byte *send_ = nullptr, *recv_ = nullptr;
  Mapping host_send_, host_recv_;  ///< host memory in which data is made and checked
  GpuFacts facts_;
  std::string refusal_;  ///< why a capture was refused
};

}  // namespace tutti::perf

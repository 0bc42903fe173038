// One rank's part of the benchmark: checks a row, measures it, and brings the ranks' figures together.
//
// Method. Time is that of nccl-tests: warm-ups, one untimed operation, a barrier, `iterations` operations back to back,
// elapsed time / iterations. Minimum and percentiles come from single operations, clocked one by one: in the same loop
// where an operation takes 20 us or more, in a loop of its own below, so that reading the clock (about 25 ns, which the
// samples contain) does not slow down what is reported as time. Each rank's figures are then joined by -a.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "call.h"
#include "check.h"
#include "mapping.h"
#include "options.h"

namespace tutti::perf {

/// Seconds an operation.
struct Timing {
  double average = 0, min = 0, p50 = 0, p99 = 0;
};

struct Direction {
  Timing timing;
  std::optional<std::uint64_t> wrong;  ///< of all ranks; nothing: not checked
};

struct RowResult {
  Row row;
  Direction out_of_place;
  std::optional<Direction> in_place;
  std::string transport, algorithm;
};

/// Wrong elements of all ranks, both directions.
std::uint64_t wrong_of(const RowResult& result);

class Bench {
 public:
  /// Borrows `comm` and `options`. allocate() before the first row.
  Bench(tuttiComm_t comm, int rank, int ranks, const Options& options);
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  /// Memory for the largest row. False: not enough; text() says so.
  bool allocate(std::size_t bytes);
  /// Collective: all ranks measure the same row. On failure text() says what happened.
  tuttiResult_t run(const Row& row, RowResult* result);
  const std::string& text() const { return text_; }

 private:
  tuttiResult_t run_directions(const Row& row, RowResult* result);
  tuttiResult_t check(const Call& call, const Check& check, bool in_place, std::uint64_t* wrong);
  tuttiResult_t measure(const Row& row, const Call& call, bool in_place, Timing* timing);
  tuttiResult_t agree_on_iterations(const Call& call, const Buffers& bound, int* iterations, bool* one_loop);
  tuttiResult_t run_loop(const Call& call, const Buffers& bound, int iterations, bool sampling, double* average);
  tuttiResult_t join(Timing* timing) const;
  double now() const;

  tuttiComm_t comm_;
  int rank_;
  int ranks_;
  const Options& options_;
  Mapping send_, recv_;
  Buffers buffers_;
  std::vector<double> samples_;
  std::string text_;
};

}  // namespace tutti::perf

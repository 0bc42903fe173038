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
  double floor = 0;                    ///< seconds that the bytes alone take; 0: not known
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

/// On host buffers; what is otherwise on others is virtual.
class Bench {
 public:
  /// Borrows `comm` and `options`. allocate() before the first row.
  Bench(tuttiComm_t comm, int rank, int ranks, const Options& options);
  virtual ~Bench() = default;
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  /// Memory for the largest row. False: not enough; text() says so.
  virtual bool allocate(std::size_t bytes);
  /// Collective: all ranks measure the same row. On failure text() says what happened.
  tuttiResult_t run(const Row& row, RowResult* result);
  const std::string& text() const { return text_; }

 protected:
  /// One checked call: fills the buffers, makes it, counts this rank's wrong elements.
  virtual tuttiResult_t try_once(const Row& row, const Call& call, const Check& check, bool in_place,
                                 std::uint64_t* wrong);
  /// Zeros stay zeros under every operation that is repeated in place: no overflow, no slow denormals.
  virtual tuttiResult_t clear(const Row& row);
  /// This rank's times.
  virtual tuttiResult_t take_times(const Call& call, const Buffers& bound, Timing* timing);
  /// Collective: seconds that moving the bytes takes at least.
  virtual tuttiResult_t find_floor(const Row& row, const Call& call, bool in_place, double* seconds);
  virtual tuttiResult_t name_paths(const Row& row, RowResult* result);
  /// Why a call failed.
  virtual std::string cause() const;

  /// How often something that takes `seconds` is done where -n does not say.
  static int repeats_for(double seconds);
  /// Of at least one sample.
  static void summarise(std::vector<double> samples, Timing* timing);

  tuttiComm_t comm() const { return comm_; }
  int rank() const { return rank_; }
  const Options& options() const { return options_; }
  std::string text_;
  Buffers buffers_;  ///< of the calls

 private:
  tuttiResult_t run_directions(const Row& row, RowResult* result);
  tuttiResult_t check(const Row& row, const Call& call, const Check& check, bool in_place, std::uint64_t* wrong);
  tuttiResult_t measure(const Row& row, const Call& call, bool in_place, Direction* direction);
  tuttiResult_t agree_on_iterations(const Call& call, const Buffers& bound, int* iterations, bool* one_loop);
  tuttiResult_t run_loop(const Call& call, const Buffers& bound, int iterations, bool sampling, double* average);
  tuttiResult_t join(Timing* timing) const;
  double now() const;

  tuttiComm_t comm_;
  int rank_;
  int ranks_;
  const Options& options_;
  Mapping send_, recv_;
  std::vector<double> samples_;
};

}  // namespace tutti::perf

// One rank's part of the benchmark: checks a row, measures it, and joins the ranks' figures.
//
// Method. Time is measured as in nccl-tests: warm-ups, one untimed operation, a barrier, `iterations` operations back
// to back; the time is the elapsed time divided by `iterations`. Minimum and percentiles come from operations that are
// timed one by one. If an operation takes 20 us or more, that is done in the same loop, else in another one, so that
// reading the clock (about 25 ns, which the samples contain) does not slow down what is reported as time. The ranks'
// figures then become one, as -a says.
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
  double floor = 0;                    ///< seconds that the bytes alone take; 0 if not known
  std::optional<std::uint64_t> wrong;  ///< wrong elements of all ranks; nullopt if not checked
};

struct RowResult {
  Row row;
  Direction out_of_place;
  std::optional<Direction> in_place;
  std::string transport, algorithm;
};

/// How many elements are wrong, of all ranks, out of place and in place.
std::uint64_t wrong_of(const RowResult& result);

/// The benchmark on host buffers. What other buffers do differently is virtual.
class Bench {
 public:
  /// Borrows `comm` and `options`. allocate() must be called before the first row.
  Bench(tuttiComm_t comm, int rank, int ranks, const Options& options);
  virtual ~Bench() = default;
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  /// Allocates memory for the largest row. Returns false if there is not enough; text() says so.
  virtual bool allocate(std::size_t bytes);
  /// Collective: all ranks measure the same row. On failure text() says what happened.
  tuttiResult_t run(const Row& row, RowResult* result);
  const std::string& text() const { return text_; }

 protected:
  /// Makes one checked call: fills the buffers, calls, counts this rank's wrong elements.
  virtual tuttiResult_t try_once(const Row& row, const Call& call, const Check& check, bool in_place,
                                 std::uint64_t* wrong);
  /// Fills the buffers with zeros. They stay zeros under every operation that is repeated in place, so that nothing
  /// overflows and no denormals slow it down.
  virtual tuttiResult_t clear(const Row& row);
  /// Measures this rank's times.
  virtual tuttiResult_t take_times(const Call& call, const Buffers& bound, Timing* timing);
  /// Collective: finds how many seconds moving the bytes takes at least.
  virtual tuttiResult_t find_floor(const Row& row, const Call& call, bool in_place, double* seconds);
  virtual tuttiResult_t name_paths(const Row& row, RowResult* result);
  /// Why a call failed.
  virtual std::string cause() const;

  /// How often something that takes `seconds` is repeated if -n does not say.
  static int repeats_for(double seconds);
  /// There must be at least one sample.
  static void summarise(std::vector<double> samples, Timing* timing);

  tuttiComm_t comm() const { return comm_; }
  int rank() const { return rank_; }
  const Options& options() const { return options_; }
  std::string text_;
  Buffers buffers_;  ///< those of the calls

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

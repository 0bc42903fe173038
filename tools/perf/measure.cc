#include "measure.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "turn.h"
#include "user_op.h"

namespace tutti::perf {
namespace {

constexpr double kLoopSeconds = 0.1;       // length of a timed loop if -n does not say
constexpr double kOneLoopSeconds = 20e-6;  // an operation this long hides the reading of the clock
constexpr int kMinIterations = 5;
constexpr int kMaxIterations = 100000;
constexpr std::size_t kMaxSamples = 1 << 20;

double percentile(const std::vector<double>& sorted, double fraction) {
  const auto rank = static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

}  // namespace

std::uint64_t wrong_of(const RowResult& result) {
  return result.out_of_place.wrong.value_or(0) + (result.in_place ? result.in_place->wrong.value_or(0) : 0);
}

Bench::Bench(tuttiComm_t comm, int rank, int ranks, const Options& options)
    : comm_(comm), rank_(rank), ranks_(ranks), options_(options) {}

bool Bench::allocate(std::size_t bytes) {
  const std::size_t capacity = std::max<std::size_t>(bytes, 4096);
  if (!send_.map(capacity, options_.registered) || !recv_.map(capacity, options_.registered)) {
    text_ = "there is no memory for two buffers of " + size_text(capacity) + " bytes; lower -e or --ranks";
    return false;
  }
  buffers_ = {send_.data(), recv_.data()};
  return true;
}

tuttiResult_t Bench::run(const Row& row, RowResult* result) {
  result->row = row;
  tuttiResult_t code = run_directions(row, result);
  if (code == tuttiSuccess) code = name_paths(row, result);
  if (code != tuttiSuccess) {
    text_ = std::string(row.collective.name) + " of " + std::to_string(row.bytes()) + " bytes, " + row.type.name +
            ": " + tuttiGetErrorString(code) + ": " + cause();
  }
  return code;
}

std::string Bench::cause() const { return tuttiGetLastError(comm_); }

tuttiResult_t Bench::name_paths(const Row& row, RowResult* result) {
  return describe(row, comm_, &result->transport, &result->algorithm);
}

tuttiResult_t Bench::find_floor(const Row&, const Call&, bool, double*) { return tuttiSuccess; }

tuttiResult_t Bench::run_directions(const Row& row, RowResult* result) {
  RowOperation op;
  if (row.collective.reduces) PERF_TRY(op.make(row.op, row.type, rank_, comm_));
  const Call call(row, op.handle(), rank_, ranks_, comm_);
  const bool travels_narrow = row.type.type == tuttiFloat32 && options_.wire != tuttiDataTypeMax;
  const Check checker(row, call, travels_narrow ? options_.wire : row.type.type, rank_, ranks_);
  const bool checked = row.collective.collective != Collective::kBarrier && options_.checks > 0;
  const auto one_direction = [&](bool in_place, Direction* direction) {
    std::uint64_t wrong = 0;
    if (checked) {
      PERF_TRY(check(row, call, checker, in_place, &wrong));
      direction->wrong = wrong;
    }
    return measure(row, call, in_place, direction);
  };
  PERF_TRY(one_direction(false, &result->out_of_place));
  return row.collective.in_place ? one_direction(true, &result->in_place.emplace()) : tuttiSuccess;
}

tuttiResult_t Bench::check(const Row& row, const Call& call, const Check& check, bool in_place, std::uint64_t* wrong) {
  std::uint64_t mine = 0;
  for (int i = 0; i < options_.checks; ++i) PERF_TRY(try_once(row, call, check, in_place, &mine));
  return tuttiAllReduce(&mine, wrong, 1, tuttiUint64, tuttiSum, comm_, nullptr);
}

tuttiResult_t Bench::try_once(const Row&, const Call& call, const Check& check, bool in_place, std::uint64_t* wrong) {
  check.prepare(buffers_, in_place);
  PERF_TRY(call.make(call.bind(buffers_, in_place)));
  *wrong += check.count_wrong(buffers_, in_place);
  return tuttiSuccess;
}

double Bench::now() const { return seconds_on(options_.cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC); }

/// The number follows from the slowest rank's probe, so that it is the same on all ranks.
tuttiResult_t Bench::agree_on_iterations(const Call& call, const Buffers& bound, int* iterations, bool* one_loop) {
  for (int i = 0; i < options_.warmups; ++i) PERF_TRY(call.make(bound));
  constexpr int kProbes = 3;
  const double start = now();
  for (int i = 0; i < kProbes; ++i) PERF_TRY(call.make(bound));
  const double mine = std::max((now() - start) / kProbes, 1e-8);
  double slowest = mine;
  PERF_TRY(tuttiAllReduce(&mine, &slowest, 1, tuttiFloat64, tuttiMax, comm_, nullptr));
  *one_loop = slowest >= kOneLoopSeconds || options_.isolated;
  *iterations = options_.iterations > 0 ? options_.iterations : repeats_for(slowest);
  return tuttiSuccess;
}

int Bench::repeats_for(double seconds) {
  return static_cast<int>(std::clamp<double>(kLoopSeconds / seconds, kMinIterations, kMaxIterations));
}

/// Runs one untimed operation, a barrier, and the loop. With -z 1 there is a barrier before each operation, which is
/// not timed.
tuttiResult_t Bench::run_loop(const Call& call, const Buffers& bound, int iterations, bool sampling, double* average) {
  samples_.clear();
  samples_.reserve(std::min<std::size_t>(static_cast<std::size_t>(iterations), kMaxSamples));
  PERF_TRY(call.make(bound));
  PERF_TRY(tuttiBarrier(comm_, nullptr));
  double total = 0;
  double before = now();
  const double start = before;
  for (int i = 0; i < iterations; ++i) {
    if (options_.isolated) {
      PERF_TRY(tuttiBarrier(comm_, nullptr));
      before = now();
    }
    PERF_TRY(call.make(bound));
    if (!sampling) continue;
    const double after = now();
    total += after - before;
    if (samples_.size() < kMaxSamples) samples_.push_back(after - before);
    before = after;
  }
  *average = (options_.isolated ? total : now() - start) / iterations;
  return tuttiSuccess;
}

tuttiResult_t Bench::clear(const Row& row) {
  std::fill_n(buffers_.send, row.send_count * row.type.bytes, std::byte{});
  std::fill_n(buffers_.recv, row.recv_count * row.type.bytes, std::byte{});
  return tuttiSuccess;
}

tuttiResult_t Bench::measure(const Row& row, const Call& call, bool in_place, Direction* direction) {
  PERF_TRY(find_floor(row, call, in_place, &direction->floor));
  PERF_TRY(clear(row));
  PERF_TRY(take_times(call, call.bind(buffers_, in_place), &direction->timing));
  return join(&direction->timing);
}

tuttiResult_t Bench::take_times(const Call& call, const Buffers& bound, Timing* timing) {
  int iterations = 0;
  bool one_loop = false;
  PERF_TRY(agree_on_iterations(call, bound, &iterations, &one_loop));
  PERF_TRY(run_loop(call, bound, iterations, one_loop, &timing->average));
  double unused = 0;
  if (!one_loop) PERF_TRY(run_loop(call, bound, iterations, true, &unused));
  summarise(std::move(samples_), timing);
  return tuttiSuccess;
}

void Bench::summarise(std::vector<double> samples, Timing* timing) {
  std::sort(samples.begin(), samples.end());
  timing->min = samples.front();
  timing->p50 = percentile(samples, 0.50);
  timing->p99 = percentile(samples, 0.99);
}

/// Joins the ranks' figures into one, on every rank.
tuttiResult_t Bench::join(Timing* timing) const {
  static_assert(sizeof(Timing) == 4 * sizeof(double));
  Timing joined;
  switch (options_.average) {
    case Average::kMean:
      PERF_TRY(tuttiAllReduce(timing, &joined, 4, tuttiFloat64, tuttiAvg, comm_, nullptr));
      break;
    case Average::kMin:
      PERF_TRY(tuttiAllReduce(timing, &joined, 4, tuttiFloat64, tuttiMin, comm_, nullptr));
      break;
    case Average::kMax:
      PERF_TRY(tuttiAllReduce(timing, &joined, 4, tuttiFloat64, tuttiMax, comm_, nullptr));
      break;
    case Average::kRank0:
      PERF_TRY(tuttiBroadcast(timing, &joined, 4, tuttiFloat64, 0, comm_, nullptr));
      break;
  }
  *timing = joined;
  return tuttiSuccess;
}

}  // namespace tutti::perf

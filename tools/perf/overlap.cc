#include "overlap.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "check.h"
#include "mapping.h"
#include "report.h"
#include "report_json.h"
#include "turn.h"
#include "user_op.h"

namespace tutti::perf {
namespace {

constexpr int kTurns = 9;
constexpr double kTurnSeconds = 0.01;  // length of a turn of operations alone if -n does not say
constexpr int kMaxOverlapIterations = 1000;

/// Works in registers, so that its time does not depend on who uses the memory.
void compute(std::uint64_t rounds) {
  std::uint64_t value = 1;
  for (std::uint64_t i = 0; i < rounds; ++i) {
    value = value * 6364136223846793005u + 1442695040888963407u;
    asm volatile("" : "+r"(value));
  }
}

/// How many rounds take `seconds` on an undisturbed core.
std::uint64_t rounds_for(double seconds) {
  constexpr std::uint64_t kRounds = 100000;
  double fastest = 1;
  for (int i = 0; i < 5; ++i) {
    const double start = now();
    compute(kRounds);
    fastest = std::min(fastest, now() - start);
  }
  return static_cast<std::uint64_t>(seconds / fastest * static_cast<double>(kRounds)) + 1;
}

/// One rank's part of the measurement.
class Overlap {
 public:
  Overlap(const Options& options, tuttiComm_t comm, int rank, int ranks)
      : options_(options), comm_(comm), rank_(rank), ranks_(ranks) {}
  ~Overlap() {
    if (stream_ != nullptr) tuttiStreamDestroy(stream_);
  }
  Overlap(const Overlap&) = delete;
  Overlap& operator=(const Overlap&) = delete;

  tuttiResult_t open(std::size_t bytes);
  tuttiResult_t run(const Row& row, OverlapRow* result);

 private:
  /// The times of one turn in seconds, each the mean of its operations.
  struct Turn {
    double operation = 0, computation = 0, both = 0, beside = 0;
  };
  tuttiResult_t check(const Row& row, const Call& call, OverlapRow* result);
  tuttiResult_t choose_iterations(const Call& call, const Buffers& bound, double* seconds);
  tuttiResult_t operate(const Call& call, const Buffers& bound, std::uint64_t rounds, double* seconds, double* beside);
  tuttiResult_t take_turn(const Call& call, const Buffers& bound, std::uint64_t rounds, Turn* turn);

  const Options& options_;
  tuttiComm_t comm_;
  int rank_;
  int ranks_;
  int iterations_ = 1;
  tuttiStream_t stream_ = nullptr;
  Mapping send_, recv_;
};

tuttiResult_t Overlap::open(std::size_t bytes) {
  const std::size_t capacity = std::max<std::size_t>(bytes, 4096);
  if (!send_.map(capacity, options_.registered) || !recv_.map(capacity, options_.registered)) return tuttiSystemError;
  return tuttiStreamCreate(&stream_);
}

/// Runs operations, with `rounds` of computing between each call and the wait for its end. `beside` becomes the time
/// that the computing took.
tuttiResult_t Overlap::operate(const Call& call, const Buffers& bound, std::uint64_t rounds, double* seconds,
                               double* beside) {
  PERF_TRY(tuttiBarrier(comm_, nullptr));
  double computing = 0;
  const double start = now();
  for (int i = 0; i < iterations_; ++i) {
    PERF_TRY(call.make(bound, stream_));
    if (rounds != 0) {
      const double before = now();
      compute(rounds);
      computing += now() - before;
    }
    PERF_TRY(tuttiStreamSynchronize(stream_));
  }
  *seconds = (now() - start) / iterations_;
  if (beside != nullptr) *beside = computing / iterations_;
  return tuttiSuccess;
}

tuttiResult_t Overlap::take_turn(const Call& call, const Buffers& bound, std::uint64_t rounds, Turn* turn) {
  PERF_TRY(operate(call, bound, 0, &turn->operation, nullptr));
  PERF_TRY(tuttiBarrier(comm_, nullptr));
  const double start = now();
  for (int i = 0; i < iterations_; ++i) compute(rounds);
  turn->computation = (now() - start) / iterations_;
  return operate(call, bound, rounds, &turn->both, &turn->beside);
}

/// Finds how many operations fit a turn, the same number on all ranks, and how long one takes.
tuttiResult_t Overlap::choose_iterations(const Call& call, const Buffers& bound, double* seconds) {
  iterations_ = 3;
  double mine = 0, slowest = 0;
  PERF_TRY(operate(call, bound, 0, &mine, nullptr));
  PERF_TRY(operate(call, bound, 0, &mine, nullptr));
  PERF_TRY(tuttiAllReduce(&mine, &slowest, 1, tuttiFloat64, tuttiMax, comm_, nullptr));
  iterations_ = options_.iterations > 0
                    ? options_.iterations
                    : static_cast<int>(std::clamp<double>(kTurnSeconds / slowest, 1, kMaxOverlapIterations));
  *seconds = slowest;
  return tuttiSuccess;
}

tuttiResult_t Overlap::check(const Row& row, const Call& call, OverlapRow* result) {
  std::uint64_t mine = 0;
  if (row.collective.collective != Collective::kBarrier && options_.checks > 0) {
    const Check checker(row, call, row.type.type, rank_, ranks_);
    const Buffers buffers{send_.data(), recv_.data()};
    checker.prepare(buffers, false);
    PERF_TRY(call.make(buffers, stream_));
    PERF_TRY(tuttiStreamSynchronize(stream_));
    mine = checker.count_wrong(buffers, false);
  }
  return tuttiAllReduce(&mine, &result->wrong, 1, tuttiUint64, tuttiSum, comm_, nullptr);
}

tuttiResult_t Overlap::run(const Row& row, OverlapRow* result) {
  result->row = row;
  RowOperation op;
  if (row.collective.reduces) PERF_TRY(op.make(row.op, row.type, rank_, comm_));
  const Call call(row, op.handle(), rank_, ranks_, comm_);
  PERF_TRY(describe(row, comm_, &result->transport, &result->algorithm));
  PERF_TRY(check(row, call, result));
  std::memset(send_.data(), 0, row.send_count * row.type.bytes);
  const Buffers bound = call.bind({send_.data(), recv_.data()}, false);
  double alone = 0;
  PERF_TRY(choose_iterations(call, bound, &alone));
  const std::uint64_t rounds = rounds_for(alone);
  std::vector<double> operation, computation, both, slowdown;
  for (int i = 0; i < kTurns; ++i) {
    Turn turn;
    PERF_TRY(take_turn(call, bound, rounds, &turn));
    operation.push_back(turn.operation);
    computation.push_back(turn.computation);
    both.push_back(turn.both);
    slowdown.push_back(turn.beside / turn.computation);
  }
  const double mine[] = {median(operation), median(computation), median(both), median(slowdown)};
  double all[4] = {};
  PERF_TRY(tuttiAllReduce(mine, all, 4, tuttiFloat64, tuttiAvg, comm_, nullptr));
  result->operation = all[0];
  result->computation = all[1];
  result->both = all[2];
  result->slowdown = all[3];
  return tuttiSuccess;
}

void print_header(const Options& options, int ranks, const char* ranks_are) {
  std::printf("# tutti-perf --overlap: %s, ranks %d (%s)\n# %s\n", options.collective.name, ranks, ranks_are,
              machine_text().c_str());
  std::printf(
      "# us, means of the ranks' medians. overlap: share of the shorter of operation and computation that was\n"
      "# hidden; slowdown: computing beside the operation, by computing alone\n#\n");
  std::printf("# %10s  %-8s  %9s  %11s  %7s  %7s  %8s  %6s  %s\n", "size (B)", "type", "operation", "computation",
              "both", "overlap", "slowdown", "#wrong", "algorithm");
  std::fflush(stdout);
}

void print_row(const OverlapRow& row) {
  std::printf("  %10zu  %-8s  %9s  %11s  %7s  %6.0f%%  %8.2f  %6" PRIu64 "  %s\n", row.row.bytes(), row.row.type.name,
              time_text(row.operation).c_str(), time_text(row.computation).c_str(), time_text(row.both).c_str(),
              100 * row.overlap(), row.slowdown, row.wrong, row.algorithm.c_str());
  std::fflush(stdout);
}

std::string json_of(const Options& options, int ranks, const std::vector<OverlapRow>& rows) {
  nlohmann::ordered_json report{{"collective", options.collective.name}, {"ranks", ranks}, {"machine", machine_text()}};
  report["overlap"] = nlohmann::ordered_json::array();
  for (const OverlapRow& row : rows)
    report["overlap"].push_back({{"size", row.row.bytes()},
                                 {"type", row.row.type.name},
                                 {"transport", row.transport},
                                 {"algorithm", row.algorithm},
                                 {"operation_us", row.operation * 1e6},
                                 {"computation_us", row.computation * 1e6},
                                 {"both_us", row.both * 1e6},
                                 {"overlap", row.overlap()},
                                 {"slowdown", row.slowdown},
                                 {"nwrong", row.wrong}});
  return report.dump(2) + "\n";
}

}  // namespace

double OverlapRow::overlap() const {
  const double shorter = std::min(operation, computation);
  return shorter > 0 ? std::clamp((operation + computation - both) / shorter, 0.0, 1.0) : 0;
}

int run_overlap(const Options& options, tuttiComm_t comm, int rank, int ranks, const char* ranks_are,
                const std::vector<Row>& rows) {
  Overlap overlap(options, comm, rank, ranks);
  std::size_t bytes = 0;
  for (const Row& row : rows) bytes = std::max(bytes, row.bytes());
  std::vector<OverlapRow> results;
  tuttiResult_t code = overlap.open(bytes);
  if (rank == 0) print_header(options, ranks, ranks_are);
  std::uint64_t wrong = 0;
  for (const Row& row : rows) {
    if (code != tuttiSuccess) break;
    results.emplace_back();
    code = overlap.run(row, &results.back());
    if (code == tuttiSuccess && rank == 0) print_row(results.back());
    wrong += results.back().wrong;
  }
  if (code != tuttiSuccess) {
    std::fprintf(stderr, "tutti-perf: rank %d: overlap of %s: %s: %s\n", rank, options.collective.name,
                 tuttiGetErrorString(code), tuttiGetLastError(comm));
    return kFailed;
  }
  const bool written =
      rank != 0 || options.json_path.empty() || write_whole(options.json_path, json_of(options, ranks, results));
  return wrong == 0 && written ? 0 : kFailedInOrder;
}

}  // namespace tutti::perf

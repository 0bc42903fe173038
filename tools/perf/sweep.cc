#include "sweep.h"

#include <sys/mman.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <optional>
#include <sstream>

#include "check.h"
#include "mapping.h"
#include "sweep_report.h"
#include "turn.h"
#include "user_op.h"

namespace tutti::perf {
namespace {

constexpr int kSweepTurns = 7;
constexpr double kBlockSeconds = 0.01;  // if -n does not say
/// A link has so many cells for small messages, which are used in turn. The first use of each is slower, because the
/// system makes its page then.
constexpr int kWarmTurns = 16;
constexpr double kWarmSeconds = 0.3;  // fewer turns where they would take longer
constexpr int kMaxSweepIterations = 20000;

/// A communicator that runs one algorithm.
struct SweepContender {
  std::string name;
  tuttiComm_t comm = nullptr;
  int iterations = 1;
  std::vector<double> seconds;  ///< by turn, the time of an operation
};

/// A row's calls. If it has a root, each rank is the root in turn: with the same root each time, algorithms whose last
/// rank is late would look fast, because the first ranks would be some calls ahead.
class Calls {
 public:
  Calls(const Row& row, tuttiRedOp_t op, int rank, int ranks, tuttiComm_t comm, const Buffers& buffers)
      : rows_(row.collective.rooted ? static_cast<std::size_t>(ranks) : 1, row) {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (row.collective.rooted) rows_[i].root = static_cast<int>(i);
      calls_.emplace_back(rows_[i], op, rank, ranks, comm);
      bound_.push_back(calls_.back().bind(buffers, false));
    }
  }
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  tuttiResult_t make() {
    const std::size_t at = turn_++ % calls_.size();
    return calls_[at].make(bound_[at]);
  }
  /// At least `calls`, rounded up so that each root has equally many.
  int whole_turns(int calls) const {
    const auto size = static_cast<int>(calls_.size());
    return (calls + size - 1) / size * size;
  }

 private:
  std::vector<Row> rows_;
  std::deque<Call> calls_;
  std::vector<Buffers> bound_;
  std::size_t turn_ = 0;
};

/// One rank's part in the sweep of one collective.
class Sweep {
 public:
  Sweep(const Options& options, tuttiComm_t comm, int rank, int ranks)
      : options_(options), comm_(comm), rank_(rank), ranks_(ranks) {}
  ~Sweep() {  // aborts after a failure, because destroying is collective and others may not come to it
    for (const SweepContender& one : contenders_) failed_ ? tuttiCommAbort(one.comm) : tuttiCommDestroy(one.comm);
  }
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;

  /// Both are collective.
  tuttiResult_t open(std::size_t bytes);
  tuttiResult_t run(const Row& row, SweepRow* cell);
  /// Reports what happened and returns the exit code.
  int fail(tuttiResult_t code);

 private:
  tuttiResult_t add(const std::string& name);
  tuttiResult_t prepare(const Row& row, SweepContender* one, std::uint64_t* wrong);
  tuttiResult_t take_turn(const Row& row, SweepContender* one);
  tuttiResult_t take_isolated_turn(Calls* calls, SweepContender* one);
  tuttiResult_t time_of_call(Calls* calls, int count, double* slowest);
  tuttiResult_t average();

  const Options& options_;
  tuttiComm_t comm_;
  int rank_;
  int ranks_;
  std::vector<SweepContender> contenders_;
  Mapping send_, recv_;
  bool failed_ = false;
};

/// One rank of each process writes the environment, between two calls in which all others wait for it.
tuttiResult_t Sweep::add(const std::string& name) {
  const bool writes = rank_ == 0 || !options_.threads;
  tuttiUniqueId id{};
  PERF_TRY(tuttiBarrier(comm_, nullptr));
  if (rank_ == 0) PERF_TRY(tuttiGetUniqueId(&id));
  std::optional<std::string> before;
  if (const char* const set = writes ? std::getenv("TUTTI_ALGO") : nullptr; set != nullptr) before = set;
  if (writes) setenv("TUTTI_ALGO", name.c_str(), 1);
  PERF_TRY(tuttiBroadcast(&id, &id, sizeof id, tuttiUint8, 0, comm_, nullptr));
  SweepContender one{name, nullptr, 1, {}};
  PERF_TRY(tuttiCommInitRank(&one.comm, ranks_, id, rank_));
  contenders_.push_back(one);
  PERF_TRY(tuttiBarrier(comm_, nullptr));
  if (writes && before) setenv("TUTTI_ALGO", before->c_str(), 1);
  if (writes && !before) unsetenv("TUTTI_ALGO");
  return tuttiBarrier(comm_, nullptr);
}

tuttiResult_t Sweep::open(std::size_t bytes) {
  char names[512];
  const std::string key = std::string("algorithms:") + options_.collective.name;
  PERF_TRY(tuttiCommGetInfo(comm_, key.c_str(), names, sizeof names));
  std::istringstream list(names);
  for (std::string name; std::getline(list, name, ',');) PERF_TRY(add(name));
  const std::size_t capacity = std::max<std::size_t>(bytes, 4096);
  const bool mapped = send_.map(capacity, options_.registered) && recv_.map(capacity, options_.registered);
  return mapped ? tuttiSuccess : tuttiSystemError;
}

/// Checks the algorithm and finds how many operations make a block.
tuttiResult_t Sweep::prepare(const Row& row, SweepContender* one, std::uint64_t* wrong) {
  RowOperation op;
  if (row.collective.reduces) PERF_TRY(op.make(row.op, row.type, rank_, one->comm));
  const Call call(row, op.handle(), rank_, ranks_, one->comm);
  const Buffers buffers{send_.data(), recv_.data()};
  const Buffers bound = call.bind(buffers, false);
  if (row.collective.collective != Collective::kBarrier && options_.checks > 0) {
    const Check check(row, call, row.type.type, rank_, ranks_);
    check.prepare(buffers, false);
    PERF_TRY(call.make(bound));
    *wrong += check.count_wrong(buffers, false);
  }
  std::memset(buffers.send, 0, row.send_count * row.type.bytes);  // zeros stay zeros under every operation
  Calls calls(row, op.handle(), rank_, ranks_, one->comm, buffers);
  PERF_TRY(calls.make());
  const int turn = calls.whole_turns(1);
  double slowest = 0;
  PERF_TRY(time_of_call(&calls, turn, &slowest));
  const int warm_turns = static_cast<int>(std::clamp<double>(kWarmSeconds / (slowest * turn), 0, kWarmTurns));
  for (int i = 0; i < warm_turns * turn; ++i) PERF_TRY(calls.make());
  PERF_TRY(time_of_call(&calls, calls.whole_turns(2), &slowest));
  const int iterations = options_.iterations > 0
                             ? options_.iterations
                             : static_cast<int>(std::clamp<double>(kBlockSeconds / slowest, 1, kMaxSweepIterations));
  one->iterations = calls.whole_turns(iterations);
  one->seconds.clear();
  return tuttiSuccess;
}

/// Makes so many calls. `slowest` is the average time of one, on the rank where that is longest.
tuttiResult_t Sweep::time_of_call(Calls* calls, int count, double* slowest) {
  const double start = now();
  for (int i = 0; i < count; ++i) PERF_TRY(calls->make());
  const double mine = std::max((now() - start) / count, 1e-8);
  return tuttiAllReduce(&mine, slowest, 1, tuttiFloat64, tuttiMax, comm_, nullptr);
}

tuttiResult_t Sweep::take_turn(const Row& row, SweepContender* one) {
  RowOperation op;
  if (row.collective.reduces) PERF_TRY(op.make(row.op, row.type, rank_, one->comm));
  Calls calls(row, op.handle(), rank_, ranks_, one->comm, {send_.data(), recv_.data()});
  PERF_TRY(calls.make());
  if (options_.isolated) return take_isolated_turn(&calls, one);
  PERF_TRY(tuttiBarrier(comm_, nullptr));
  const double start = now();
  for (int i = 0; i < one->iterations; ++i) PERF_TRY(calls.make());
  one->seconds.push_back((now() - start) / one->iterations);
  return tuttiSuccess;
}

/// All ranks begin each call together, and its time is that of the slowest.
tuttiResult_t Sweep::take_isolated_turn(Calls* calls, SweepContender* one) {
  double total = 0, slowest = 0;
  PERF_TRY(tuttiBarrier(comm_, nullptr));
  for (int i = 0; i < one->iterations; ++i) {
    const double start = now();
    PERF_TRY(calls->make());
    const double mine = now() - start;
    PERF_TRY(tuttiAllReduce(&mine, &slowest, 1, tuttiFloat64, tuttiMax, comm_, nullptr));
    total += slowest;
  }
  one->seconds.push_back(total / one->iterations);
  return tuttiSuccess;
}

/// Averages the ranks' times, on every rank.
tuttiResult_t Sweep::average() {
  for (SweepContender& one : contenders_) {
    std::vector<double> mine = one.seconds;
    PERF_TRY(tuttiAllReduce(mine.data(), one.seconds.data(), mine.size(), tuttiFloat64, tuttiAvg, comm_, nullptr));
  }
  return tuttiSuccess;
}

tuttiResult_t Sweep::run(const Row& row, SweepRow* cell) {
  cell->row = row;
  PERF_TRY(describe(row, comm_, &cell->transport, &cell->chosen));
  std::uint64_t wrong = 0;
  for (SweepContender& one : contenders_) PERF_TRY(prepare(row, &one, &wrong));
  for (int turn = 0; turn < kSweepTurns; ++turn)
    for (SweepContender& one : contenders_) PERF_TRY(take_turn(row, &one));
  PERF_TRY(average());
  PERF_TRY(tuttiAllReduce(&wrong, &cell->wrong, 1, tuttiUint64, tuttiSum, comm_, nullptr));
  const auto own = std::find_if(contenders_.begin(), contenders_.end(),
                                [&](const SweepContender& one) { return one.name == cell->chosen; });
  if (own == contenders_.end()) return tuttiInternalError;
  for (const SweepContender& one : contenders_) {
    std::vector<double> ratios;
    for (int turn = 0; turn < kSweepTurns; ++turn) {
      const auto at = static_cast<std::size_t>(turn);
      ratios.push_back(own->seconds[at] / one.seconds[at]);
    }
    cell->names.push_back(one.name);
    cell->seconds.push_back(median(one.seconds));
    cell->chosen_by_all.push_back(median(ratios));
  }
  return tuttiSuccess;
}

int Sweep::fail(tuttiResult_t code) {
  failed_ = true;
  std::fprintf(stderr, "tutti-perf: rank %d: sweep of %s: %s: %s\n", rank_, options_.collective.name,
               tuttiGetErrorString(code), tuttiGetLastError(nullptr));
  return kFailed;
}

}  // namespace

std::size_t SweepRow::best() const {
  return static_cast<std::size_t>(std::max_element(chosen_by_all.begin(), chosen_by_all.end()) - chosen_by_all.begin());
}

int run_sweep(const Options& options, tuttiComm_t comm, int rank, int ranks, const std::vector<Row>& rows,
              std::vector<SweepRow>* cells) {
  Sweep sweep(options, comm, rank, ranks);
  std::size_t bytes = 0;
  for (const Row& row : rows) bytes = std::max(bytes, row.bytes());
  if (const tuttiResult_t code = sweep.open(bytes); code != tuttiSuccess) return sweep.fail(code);
  bool right = true;
  for (const Row& row : rows) {
    SweepRow cell;
    if (const tuttiResult_t code = sweep.run(row, &cell); code != tuttiSuccess) return sweep.fail(code);
    if (rank == 0) print_cell(cell);
    right = right && cell.wrong == 0;
    cells->push_back(std::move(cell));
  }
  return right ? 0 : kFailedInOrder;
}

}  // namespace tutti::perf

#include "cases/collective_cases.h"

#include <vector>

#include "cases/trial.h"

namespace tutti::cases {
namespace {

constexpr std::size_t kLarge = 10000;  // elements from which on a case takes one layout of several

class Runner {
 public:
  Runner(tuttiComm_t comm, int rank, int ranks, Effort effort)
      : ledger_(comm, rank, ranks), patterns_(rank, ranks), in_turn_from_(effort == Effort::kLeast ? 0 : kLarge) {}

  void run_reductions(tuttiDataType_t type, Operation op, tuttiRedOp_t handle, const std::vector<std::size_t>& counts) {
    for (const std::size_t count : counts) {
      for (const Kind kind : {Kind::kAllReduce, Kind::kReduceScatter, Kind::kReduce}) {
        if (kind == Kind::kReduceScatter && count > kLarge && op != Operation::kSum)
          continue;  // n times as much memory
        run_layouts({kind, type, op, handle, 0, count, {}, 0});
      }
    }
  }

  void run_moves(tuttiDataType_t type, const std::vector<Kind>& kinds, const std::vector<std::size_t>& counts) {
    for (const std::size_t count : counts) {
      for (const Kind kind : kinds) run_layouts({kind, type, Operation::kSum, tuttiSum, 0, count, {}, 0});
    }
  }

  Ledger& ledger() { return ledger_; }

 private:
  /// In place and not, shifted by elements and by bytes that are no multiple of them. Counts from in_turn_from_
  /// on take one layout each, in turn.
  void run_layouts(Case one) {
    const std::size_t width = width_of(one.type);
    const Layout layouts[] = {{false, 0, 0}, {true, 0, 0}, {false, width, 3 * width}, {true, 5, 5}, {false, 3, 1}};
    constexpr std::size_t kLayouts = 5;
    const auto turn = static_cast<std::size_t>(turn_);
    one.root = turn_ % ledger_.ranks();
    for (std::size_t i = 0; i < kLayouts && ledger_.usable(); ++i) {
      if (one.count >= in_turn_from_ && i != turn % kLayouts) continue;
      one.layout = layouts[i];
      one.seed = turn * kLayouts + i;
      Trial trial(one, &patterns_);
      if (ledger_.accept(trial.issue(ledger_.comm()), text_of(one))) ledger_.note(trial.is_right(), text_of(one));
    }
    ++turn_;
  }

  Ledger ledger_;
  Patterns patterns_;
  std::size_t in_turn_from_;
  int turn_ = 0;
};

std::vector<std::size_t> counts_for(int ranks, Effort effort) {
  const auto n = static_cast<std::size_t>(ranks);
  std::vector<std::size_t> counts{0, 1, n - 1, n, n + 1, 2, 3, 7, 31, 127, 1009, 4099};
  if (effort == Effort::kLarge) counts.push_back(300007);
  return counts;
}

bool is_run(tuttiDataType_t type, Effort effort) { return effort >= Effort::kUsual || is_representative(type); }

/// The bits of both.
void unite(const void* in, void* inout, std::size_t count, tuttiDataType_t type, void* user) {
  const auto* from = static_cast<const unsigned char*>(in);
  auto* to = static_cast<unsigned char*>(inout);
  const bool right = type == *static_cast<const tuttiDataType_t*>(user);
  for (std::size_t i = 0; i < count * width_of(type) && right; ++i) to[i] |= from[i];
}

/// First the map of the lower ranks, then the other.
void compose(const void* in, void* inout, std::size_t count, tuttiDataType_t type, void* user) {
  const std::size_t width = width_of(type);
  const auto* from = static_cast<const unsigned char*>(in);
  auto* to = static_cast<unsigned char*>(inout);
  const bool right = type == *static_cast<const tuttiDataType_t*>(user);
  for (std::size_t i = 0; i < count * width && right; i += width) {
    std::uint64_t first = 0, second = 0;
    std::copy_n(from + i, width, reinterpret_cast<unsigned char*>(&first));
    std::copy_n(to + i, width, reinterpret_cast<unsigned char*>(&second));
    const std::uint64_t both = composed(first, second, width);
    std::copy_n(reinterpret_cast<const unsigned char*>(&both), width, to + i);
  }
}

tuttiResult_t make_handle(Operation op, tuttiDataType_t* type, const Ledger& ledger, tuttiRedOp_t* handle) {
  if (op == Operation::kAffine) return tuttiRedOpCreateCustom(handle, compose, 0, type, ledger.comm());
  if (op == Operation::kUnion) return tuttiRedOpCreateCustom(handle, unite, 1, type, ledger.comm());
  Bytes factor = scalar(*type, ledger.rank());
  const tuttiResult_t made =
      tuttiRedOpCreatePreMulSum(handle, factor.data(), *type, tuttiScalarHostImmediate, ledger.comm());
  std::fill(factor.begin(), factor.end(), kUnwritten);  // it has been read
  return made;
}

}  // namespace

Outcome run_collective_cases(tuttiComm_t comm, int rank, int ranks, Effort effort) {
  const std::vector<std::size_t> counts = counts_for(ranks, effort);
  Runner runner(comm, rank, ranks, effort);
  for (int type = tuttiInt8; type <= tuttiBool && runner.ledger().usable(); ++type) {
    const auto data_type = static_cast<tuttiDataType_t>(type);
    if (!is_run(data_type, effort)) continue;
    runner.run_moves(data_type, {Kind::kAllGather, Kind::kBroadcast}, counts);
    for (int op = tuttiSum; op <= tuttiBitXor; ++op) {
      const auto operation = static_cast<Operation>(op);
      if (!is_defined(operation, data_type)) continue;
      if (effort == Effort::kLeast && (type + op) % 3 != 0) continue;
      runner.run_reductions(data_type, operation, static_cast<tuttiRedOp_t>(op), counts);
    }
  }
  Ledger& ledger = runner.ledger();
  for (int i = 0; i < 10 && ledger.usable(); ++i) {
    if (ledger.accept(tuttiBarrier(comm, nullptr), "barrier")) ledger.note(true, "barrier");
  }
  return ledger.outcome();
}

Outcome run_exchange_cases(tuttiComm_t comm, int rank, int ranks, Effort effort) {
  const std::vector<Kind> kinds{Kind::kGather, Kind::kScatter, Kind::kAllToAll, Kind::kAllGatherV, Kind::kAllToAllV};
  Runner runner(comm, rank, ranks, effort);
  for (int type = tuttiInt8; type <= tuttiBool && runner.ledger().usable(); ++type) {
    const auto data_type = static_cast<tuttiDataType_t>(type);
    if (!is_run(data_type, effort)) continue;
    const bool wide = data_type == tuttiInt8 || data_type == tuttiFloat32;  // the large count takes n times the memory
    runner.run_moves(data_type, kinds, counts_for(ranks, effort == Effort::kLarge && !wide ? Effort::kUsual : effort));
  }
  return runner.ledger().outcome();
}

Outcome run_operation_cases(tuttiComm_t comm, int rank, int ranks, Effort effort) {
  const std::vector<std::size_t> counts = counts_for(ranks, effort);
  Runner runner(comm, rank, ranks, effort);
  Ledger& ledger = runner.ledger();
  for (int type = tuttiInt8; type <= tuttiBool; ++type) {
    auto data_type = static_cast<tuttiDataType_t>(type);
    if (!is_run(data_type, effort)) continue;
    for (const Operation op : {Operation::kMulSum, Operation::kAffine, Operation::kUnion}) {
      tuttiRedOp_t handle = tuttiSum;
      if (!ledger.usable() || !ledger.accept(make_handle(op, &data_type, ledger, &handle), "an operation")) break;
      runner.run_reductions(data_type, op, handle, counts);
      ledger.accept(tuttiRedOpDestroy(handle, comm), "destroying an operation");
    }
  }
  return ledger.outcome();
}

}  // namespace tutti::cases

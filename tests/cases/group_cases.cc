// Groups of random calls, booleans of any byte, and all cases in one.
#include <vector>

#include "cases/collective_cases.h"
#include "cases/trial.h"

namespace tutti::cases {
namespace {

/// The calls of one group. All choices are functions of the seed, the same on all ranks, but for what each rank decides
/// alone: in place or not, and where its buffers begin.
class GroupMaker {
 public:
  GroupMaker(const Ledger& ledger, Effort effort, std::uint64_t seed)
      : rank_(ledger.rank()), ranks_(ledger.ranks()), few_(effort <= Effort::kFew), seed_(seed) {}

  std::vector<Case> make(int round) {
    std::uint64_t next = 0;
    const auto roll = [&](std::uint64_t sides) {
      return dice(seed_, static_cast<std::uint64_t>(round), next++) % sides;
    };
    std::vector<Case> cases(1 + roll(12));
    const bool small = roll(4) != 0;  // small calls of a group travel together
    for (Case& one : cases) {
      one.kind = static_cast<Kind>(roll(kKinds));
      one.type = type_of(roll(15));
      one.op = static_cast<Operation>(roll(8));
      if (!is_defined(one.op, one.type)) one.op = Operation::kMax;
      one.handle = static_cast<tuttiRedOp_t>(one.op);
      one.root = static_cast<int>(roll(static_cast<std::uint64_t>(ranks_)));
      one.count = static_cast<std::size_t>(roll(small ? 40 : 6000));
      one.seed = dice(seed_, static_cast<std::uint64_t>(round) + 1000000, next) % 1000000;
      const std::uint64_t own = dice(one.seed, 9, static_cast<std::uint64_t>(rank_));
      one.layout = {own % 3 == 0, own / 3 % 16, own / 48 % 16};
    }
    return cases;
  }

 private:
  tuttiDataType_t type_of(std::uint64_t number) const {
    constexpr tuttiDataType_t kFew[] = {tuttiInt8, tuttiUint64, tuttiFloat32, tuttiBfloat16, tuttiBool};
    return few_ ? kFew[number % 5] : static_cast<tuttiDataType_t>(number);
  }

  int rank_;
  int ranks_;
  bool few_;
  std::uint64_t seed_;
};

void run_group(const std::vector<Case>& cases, int round, Patterns* patterns, Ledger* ledger) {
  const std::string name = "round " + std::to_string(round) + ": ";
  std::vector<Trial> trials;
  trials.reserve(cases.size());
  for (const Case& one : cases) trials.emplace_back(one, patterns);
  if (!ledger->accept(tuttiGroupStart(), name + "group start")) return;
  for (Trial& trial : trials) ledger->accept(trial.issue(ledger->comm()), name + text_of(trial.asked()));
  if (!ledger->accept(tuttiGroupEnd(), name + "group end")) return;
  for (const Trial& trial : trials) ledger->note(trial.is_right(), name + text_of(trial.asked()));
}

/// 0 or any other byte.
unsigned char truth_byte(Operation op, int rank, std::size_t i) {
  const std::uint64_t die = dice(500 + static_cast<std::uint64_t>(op), static_cast<std::uint64_t>(rank), i);
  const bool mostly = op == Operation::kProd || op == Operation::kMin || op == Operation::kBitAnd;
  const bool truth = mostly ? die % 8 != 0 : die % 8 == 0;
  return truth ? static_cast<unsigned char>(1 + die / 8 % 255) : 0;
}

bool truth_of_all(Operation op, int ranks, std::size_t i) {
  int count = 0;
  for (int rank = 0; rank < ranks; ++rank) count += truth_byte(op, rank, i) != 0 ? 1 : 0;
  if (op == Operation::kBitXor) return count % 2 == 1;
  if (op == Operation::kProd || op == Operation::kMin || op == Operation::kBitAnd) return count == ranks;
  return count > 0;
}

}  // namespace

Outcome run_group_cases(tuttiComm_t comm, int rank, int ranks, Effort effort, int rounds, std::uint64_t seed) {
  Ledger ledger(comm, rank, ranks);
  Patterns patterns(rank, ranks);
  GroupMaker maker(ledger, effort, seed);
  for (int round = 0; round < rounds && ledger.usable(); ++round) {
    run_group(maker.make(round), round, &patterns, &ledger);
  }
  return ledger.outcome();
}

Outcome run_truth_cases(tuttiComm_t comm, int rank, int ranks) {
  Ledger ledger(comm, rank, ranks);
  for (const std::size_t count : {std::size_t{1}, std::size_t{67}, std::size_t{5003}}) {
    for (int number = tuttiSum; number <= tuttiBitXor; ++number) {
      const auto op = static_cast<Operation>(number);
      if (!is_defined(op, tuttiBool) || !ledger.usable()) continue;
      Bytes send(count), recv(count);
      for (std::size_t i = 0; i < count; ++i) send[i] = truth_byte(op, rank, i);
      const std::string what =
          "all_reduce of " + std::to_string(count) + " booleans, operation " + std::to_string(number);
      const auto code =
          tuttiAllReduce(send.data(), recv.data(), count, tuttiBool, static_cast<tuttiRedOp_t>(number), comm, nullptr);
      if (!ledger.accept(code, what)) break;
      bool right = true;
      for (std::size_t i = 0; i < count; ++i) right = right && (recv[i] != 0) == truth_of_all(op, ranks, i);
      ledger.note(right, what);
    }
  }
  return ledger.outcome();
}

Outcome run_all_cases(tuttiComm_t comm, int rank, int ranks, Effort effort, int group_rounds) {
  Outcome outcome = run_collective_cases(comm, rank, ranks, effort);
  const auto go_on = [&](auto cases) {
    if (outcome.failed == 0) outcome = outcome + cases();
  };
  go_on([&] { return run_exchange_cases(comm, rank, ranks, effort); });
  go_on([&] { return run_truth_cases(comm, rank, ranks); });
  go_on([&] { return run_operation_cases(comm, rank, ranks, effort); });
  go_on([&] { return run_message_cases(comm, rank, ranks, effort); });
  go_on([&] { return run_group_cases(comm, rank, ranks, effort, group_rounds, 1); });
  return outcome;
}

}  // namespace tutti::cases

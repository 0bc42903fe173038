// Rounds of random calls of random ranks, to which everything happens that can happen to a process: tools/chaos.sh.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "chaos/board.h"
#include "chaos/plan.h"
#include "chaos/round.h"
#include "support/shared_memory.h"

namespace tutti::chaos {
namespace {

struct Options {
  double minutes = 1;
  std::uint64_t seed = std::random_device{}();
  int round = -1;  ///< this one alone
  int limit = 120;
  bool tells = false;
  Planted planted = Planted::kNone;
};

const std::map<std::string, Planted> kPlanted{{"wrong_value", Planted::kWrongValue},
                                              {"wrong_call", Planted::kWrongCall},
                                              {"crash", Planted::kCrash},
                                              {"hang", Planted::kHang}};

/// What all rounds came to.
struct Total {
  int rounds = 0;
  long members = 0, calls = 0, exact = 0, splits = 0, shrinks = 0, grows = 0, revokes = 0, left_out = 0;
  std::array<long, 16> errors{};
  std::array<long, kFaults> strikes{};
  double slowest_recovery_ms = 0;
  std::vector<int> failed;

  void add(const Board& board) {
    ++rounds;
    members += board.members;
    calls += board.calls;
    exact += board.exact;
    splits += board.splits;
    shrinks += board.shrinks;
    grows += board.grows;
    revokes += board.revokes;
    left_out += board.left_out;
    for (std::size_t i = 0; i < errors.size(); ++i) errors[i] += board.errors[i];
    for (std::size_t i = 0; i < strikes.size(); ++i) strikes[i] += board.strikes[i];
    slowest_recovery_ms = std::max(slowest_recovery_ms, static_cast<double>(board.slowest_recovery_us.load()) / 1000);
  }
};

void print(const Total& total) {
  std::printf("%d rounds with %ld ranks: %ld calls, %ld exact results", total.rounds, total.members, total.calls,
              total.exact);
  std::printf("; %ld splits, %ld shrinks, %ld grows, %ld revokes, each by a rank; %ld ranks left out\n", total.splits,
              total.shrinks, total.grows, total.revokes, total.left_out);
  std::printf("faults:");
  for (int i = 0; i < kFaults; ++i)
    std::printf(" %s %ld%s", name_of(static_cast<Fault>(i)), total.strikes[static_cast<std::size_t>(i)],
                i + 1 < kFaults ? "," : "\n");
  std::printf("errors: remote %ld, timeout %ld, aborted %ld, system %ld\n", total.errors[tuttiRemoteError],
              total.errors[tuttiTimeout], total.errors[tuttiAborted], total.errors[tuttiSystemError]);
  std::printf("slowest way from an error to a communicator of those who are left: %.1f ms\n",
              total.slowest_recovery_ms);
}

/// Whether all went well.
bool run_round(const Options& options, int number, Total* total) {
  Plan plan = plan_of(options.seed, number);
  plan.planted = options.planted;
  if (options.tells) std::printf("round %d: %s\n", number, text_of(plan).c_str());
  std::fflush(stdout);
  const test::SharedMemory<Board> board;
  const auto began = std::chrono::steady_clock::now();
  Round(plan, *board, std::chrono::seconds(options.limit)).run();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  total->add(*board);
  if (options.tells)
    std::printf("  %.1f s, %ld calls, %ld shrinks, slowest %.1f ms\n", took.count(), board->calls.load(),
                board->shrinks.load(), static_cast<double>(board->slowest_recovery_us.load()) / 1000);
  if (board->complaints == 0) return true;
  std::printf("round %d has FAILED: %s\n", number, text_of(plan).c_str());
  for (int i = 0; i < std::min(board->complaints.load(), Board::kMostComplaints); ++i)
    std::printf("  %s\n", board->texts[i]);
  std::printf("  again: tools/chaos.sh --seed %llu --round %d\n", static_cast<unsigned long long>(options.seed),
              number);
  total->failed.push_back(number);
  return false;
}

int run(const Options& options) {
  std::printf("seed %llu\n", static_cast<unsigned long long>(options.seed));
  Total total;
  if (options.round >= 0) {
    run_round(options, options.round, &total);
  } else {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(options.minutes * 60);
    for (int round = 0; std::chrono::steady_clock::now() < end; ++round) run_round(options, round, &total);
  }
  print(total);
  if (total.failed.empty()) return 0;
  std::printf("%zu rounds have failed\n", total.failed.size());
  return 1;
}

}  // namespace
}  // namespace tutti::chaos

int main(int argc, char** argv) {
  tutti::chaos::Options options;
  CLI::App app("Random calls of random ranks, to which everything happens that can happen to a process.", "chaos");
  app.add_option("--minutes", options.minutes, "how long rounds are begun")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seed", options.seed, "what is at random follows from it; another one each time if it is not given");
  app.add_option("--round", options.round, "only the round of this number")->check(CLI::NonNegativeNumber);
  app.add_option("--limit", options.limit, "seconds after which a round has to have ended")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--tell", options.tells, "tells what each round does");
  app.add_option("--plant", options.planted,
                 "a fault of a rank itself, which is to be found: wrong_value, wrong_call, crash, hang")
      ->transform(CLI::CheckedTransformer(tutti::chaos::kPlanted))
      ->option_text("FAULT");
  CLI11_PARSE(app, argc, argv);
  return tutti::chaos::run(options);
}

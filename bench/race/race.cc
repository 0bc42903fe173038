// Tutti against MPI, or against the memory alone, in turn in one process on the same buffers, so that both see the same
// machine.
//
// Blocks of a few milliseconds alternate (which comes first alternates too); between them a cache line goes to and fro
// to tell how far apart the cores are, because that alone changes times by 2 to 3. Ratios are taken pair by pair and
// kept by state. The sizes are swept in rounds, so that each of them meets the machine in all its moods.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "contest.h"
#include "core_use.h"
#include "mpi_call.h"
#include "ping.h"
#include "tally.h"

namespace tutti::race {
namespace {

struct Options {
  std::size_t min_bytes = 8, max_bytes = 64ULL << 20, factor = 2;
  int rounds = 6;
  int pairs = 6;        ///< of each size in a round
  double block_ms = 4;  ///< a block's length, at least one operation
  bool in_place = false;
  bool isolated = false;  ///< all ranks begin each operation together
  std::string collective = "all_reduce";
  std::string against = "mpi";
  std::string json_path;
  Contested contested = Contested::kAllReduce;
  Runner other = Runner::kMpi;
};

class Race {
 public:
  Race(const Options& options, tuttiComm_t comm)
      : options_(options),
        ping_(MPI_COMM_WORLD),
        contest_(options.contested, comm, options.max_bytes, options.in_place),
        rank_(contest_.rank()) {}

  /// False: a call failed.
  bool run() {
    for (int round = 0; round < options_.rounds && healthy_; ++round) {
      for (std::size_t bytes = options_.min_bytes; bytes <= options_.max_bytes && healthy_; bytes *= options_.factor) {
        show(round, bytes);
        if (round == 0) check(bytes);
        measure(bytes);
      }
    }
    if (rank_ == 0 && isatty(STDERR_FILENO) != 0) std::fputs("\r\033[K", stderr);
    return healthy_;
  }
  const Tally& tally() const { return tally_; }
  int rank() const { return rank_; }
  int ranks() const { return contest_.ranks(); }

 private:
  void show(int round, std::size_t bytes) const {
    if (rank_ != 0 || isatty(STDERR_FILENO) == 0) return;
    std::fprintf(stderr, "\r\033[Kround %d of %d, %zu bytes", round + 1, options_.rounds, bytes);
  }

  void operate(bool ours, std::size_t bytes) {
    healthy_ = contest_.run(ours ? Runner::kTutti : options_.other, bytes) && healthy_;
  }

  void check(std::size_t bytes) {
    for (const Runner runner : {Runner::kTutti, Runner::kMpi})
      tally_.add_wrong(bytes, contest_.count_wrong(runner, bytes));
    contest_.clear();
  }

  /// Of the slowest rank: some are done early where there is a root.
  double block(bool ours, std::size_t bytes, int iterations) {
    operate(ours, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    if (options_.isolated) return isolated_block(ours, bytes, iterations);
    const double start = MPI_Wtime();
    for (int i = 0; i < iterations; ++i) operate(ours, bytes);
    const double mine = (MPI_Wtime() - start) / iterations;
    double slowest = 0;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
  }

  /// All ranks begin each operation together, and its time is that of its slowest rank.
  double isolated_block(bool ours, std::size_t bytes, int iterations) {
    double total = 0;
    for (int i = 0; i < iterations; ++i) {
      const double start = MPI_Wtime();
      operate(ours, bytes);
      const double mine = MPI_Wtime() - start;
      double slowest = 0;
      MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);  // also waits for all
      total += slowest;
    }
    return total / iterations;
  }

  /// Rank 0 decides for all how many operations make a block.
  int iterations_for(std::size_t bytes) {
    const double seconds = std::max(block(false, bytes, 3), block(true, bytes, 3));
    int iterations = static_cast<int>(std::min(1e6, options_.block_ms * 1e-3 / std::max(seconds, 1e-9)));
    MPI_Bcast(&iterations, 1, MPI_INT, 0, MPI_COMM_WORLD);
    const int turns = contest_.is_rooted() ? contest_.ranks() : 1;
    return (std::max(iterations, 1) + turns - 1) / turns * turns;  // each root as often as the others
  }

  /// Whether other programs took a core from any rank since `begin`. With more ranks than cores they take it from each
  /// other, and nothing can be told.
  bool was_disturbed(const CoreUse& begin) const {
    int one = CoreUse::was_disturbed(begin, CoreUse::now()) ? 1 : 0, any = 0;
    MPI_Allreduce(&one, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return any != 0 && contest_.ranks() <= static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  }

  void measure(std::size_t bytes) {
    const int iterations = iterations_for(bytes);
    for (int i = 0; i < options_.pairs && healthy_; ++i) {
      const bool ours_first = i % 2 == 0;
      const CoreUse begin = CoreUse::now();
      const double before = ping_.one_way_ns();
      const double first = block(ours_first, bytes, iterations);
      const double between = ping_.one_way_ns();
      const double second = block(!ours_first, bytes, iterations);
      const double after = ping_.one_way_ns();
      const State state = was_disturbed(begin) ? State::kDisturbed : state_of(before, between, after);
      tally_.add(bytes, state, ours_first ? Pair{first, second} : Pair{second, first});
    }
  }

  const Options& options_;
  Ping ping_;
  Contest contest_;
  Tally tally_;
  int rank_;
  bool healthy_ = true;
};

std::string transport_of(tuttiComm_t comm) {
  char name[32] = "";
  return tuttiCommGetInfo(comm, "transport", name, sizeof name) == tuttiSuccess ? name : "?";
}

int run(const Options& options) {
  tuttiComm_t comm = nullptr;
  if (tuttiCommInitMPI(&comm, MPI_COMM_WORLD, nullptr) != tuttiSuccess) {
    std::fprintf(stderr, "join: %s\n", tuttiGetLastError(nullptr));
    return 1;
  }
  Race race(options, comm);
  if (!race.run()) return 1;
  if (race.rank() == 0) {
    const bool floor = options.other == Runner::kFloor;
    const Setup setup{options.collective, race.ranks(),       options.in_place,
                      options.isolated,   transport_of(comm), floor ? "the memory alone" : mpi_name()};
    race.tally().print(setup);
    if (!options.json_path.empty()) std::ofstream(options.json_path) << race.tally().json(setup);
  }
  tuttiCommDestroy(comm);
  return race.tally().wrong() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tutti::race

int main(int argc, char** argv) {
  tutti::race::Options options;
  CLI::App app{"Tutti against MPI, paired; run it by bench/race.sh.", "race"};
  const auto size = CLI::AsSizeValue(false);
  app.add_option("-b,--minbytes", options.min_bytes, "smallest size, at least 4 (8)")->transform(size);
  app.add_option("-e,--maxbytes", options.max_bytes, "largest size (64M)")->transform(size);
  app.add_option("-f,--factor", options.factor, "between sizes (2)")->check(CLI::Range(2, 1024));
  app.add_option("--rounds", options.rounds, "sweeps over all sizes (6)")->check(CLI::Range(1, 100000));
  app.add_option("--pairs", options.pairs, "pairs of blocks of a size in a round (6)")->check(CLI::Range(1, 100000));
  app.add_option("--block-ms", options.block_ms, "length of a block in milliseconds (4)");
  app.add_flag("--in-place", options.in_place, "sum in place (all_reduce)");
  app.add_flag("--isolated", options.isolated,
               "let all ranks begin each operation together; its slowest rank counts (operations back to back)");
  const std::vector<std::string> names(std::begin(tutti::race::kContestedNames),
                                       std::end(tutti::race::kContestedNames));
  app.add_option("-c,--collective", options.collective, "what to race (all_reduce)")->check(CLI::IsMember(names));
  app.add_option("--against", options.against,
                 "mpi, or floor: every rank computes the output from inputs of its own, at the same time (mpi)")
      ->check(CLI::IsMember({"mpi", "floor"}));
  app.add_option("-J,--json", options.json_path, "write the medians to this file");
  CLI11_PARSE(app, argc, argv);
  if (options.min_bytes < sizeof(float) || options.max_bytes < options.min_bytes) {
    std::fprintf(stderr, "race: sizes are at least 4 bytes, the smallest first\n");
    return 2;
  }
  const auto found = std::find(names.begin(), names.end(), options.collective);
  options.contested = static_cast<tutti::race::Contested>(found - names.begin());
  options.other = options.against == "floor" ? tutti::race::Runner::kFloor : tutti::race::Runner::kMpi;
  if (options.in_place && options.contested != tutti::race::Contested::kAllReduce) {
    std::fprintf(stderr, "race: only all_reduce is raced in place\n");
    return 2;
  }
  if (options.contested == tutti::race::Contested::kBarrier) options.max_bytes = options.min_bytes;
  MPI_Init(&argc, &argv);
  const int code = tutti::race::run(options);
  if (code != 0) MPI_Abort(MPI_COMM_WORLD, code);
  MPI_Finalize();
  return 0;
}

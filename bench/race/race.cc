// Tutti against MPI_Allreduce, in turn in one process on the same buffers, so that both see the same machine.
//
// Blocks of a few milliseconds alternate (which comes first alternates too); between them a cache line goes to and fro
// to tell how far apart the cores are, because that alone changes times by 2 to 3. Ratios are taken pair by pair and
// kept by state. The sizes are swept in rounds, so that each of them meets the machine in all its moods.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#include <sys/resource.h>
#include <time.h>
#include <tutti/tutti_mpi.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "ping.h"
#include "tally.h"

namespace tutti::race {
namespace {

// A pair counts as disturbed when a rank lost its core more often than this a second, or had it for less than this
// share of the time: on a quiet machine a waiting rank polls.
constexpr double kQuietSwitches = 150;
constexpr double kQuietShare = 0.9;

struct Options {
  std::size_t min_bytes = 8, max_bytes = 64ULL << 20;
  int rounds = 6;
  int pairs = 6;        ///< of each size in a round
  double block_ms = 4;  ///< a block's length, at least one operation
  bool in_place = false;
  std::string json_path;
};

class Race {
 public:
  Race(const Options& options, tuttiComm_t comm)
      : options_(options),
        comm_(comm),
        ping_(MPI_COMM_WORLD),
        send_(options.max_bytes / sizeof(float) + 1),
        recv_(send_.size()) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  }

  /// False: a call failed.
  bool run() {
    for (int round = 0; round < options_.rounds && healthy_; ++round) {
      for (std::size_t bytes = options_.min_bytes; bytes <= options_.max_bytes && healthy_; bytes *= 2) {
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
  int ranks() const { return ranks_; }

 private:
  void show(int round, std::size_t bytes) const {
    if (rank_ != 0 || isatty(STDERR_FILENO) == 0) return;
    std::fprintf(stderr, "\r\033[Kround %d of %d, %zu bytes", round + 1, options_.rounds, bytes);
  }

  void all_reduce(bool ours, std::size_t count) {
    float* source = options_.in_place ? recv_.data() : send_.data();
    if (!ours) {
      MPI_Allreduce(options_.in_place ? MPI_IN_PLACE : source, recv_.data(), static_cast<int>(count), MPI_FLOAT,
                    MPI_SUM, MPI_COMM_WORLD);
      return;
    }
    const tuttiResult_t code = tuttiAllReduce(source, recv_.data(), count, tuttiFloat32, tuttiSum, comm_, nullptr);
    if (code == tuttiSuccess || !healthy_) return;
    std::fprintf(stderr, "rank %d: %s: %s\n", rank_, tuttiGetErrorString(code), tuttiGetLastError(comm_));
    healthy_ = false;
  }

  /// Small integers: their sum is exact and known.
  void check(std::size_t bytes) {
    const std::size_t count = bytes / sizeof(float);
    for (const bool ours : {true, false}) {
      float* source = options_.in_place ? recv_.data() : send_.data();
      if (!options_.in_place) std::fill_n(recv_.begin(), count, -1.0F);
      for (std::size_t i = 0; i < count; ++i)
        source[i] = static_cast<float>(i % 1021 + static_cast<std::size_t>(rank_));
      all_reduce(ours, count);
      std::size_t wrong = 0;
      const auto n = static_cast<std::size_t>(ranks_);
      for (std::size_t i = 0; i < count; ++i) {
        wrong += recv_[i] == static_cast<float>(n * (i % 1021) + n * (n - 1) / 2) ? 0 : 1;
      }
      unsigned long mine = wrong, all = 0;
      MPI_Allreduce(&mine, &all, 1, MPI_UNSIGNED_LONG, MPI_SUM, MPI_COMM_WORLD);
      tally_.add_wrong(bytes, all);
    }
    std::fill_n(recv_.begin(), count, 0.0F);  // in place, zeros stay zeros however often they are added
  }

  double block(bool ours, std::size_t count, int iterations) {
    all_reduce(ours, count);
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (int i = 0; i < iterations; ++i) all_reduce(ours, count);
    return (MPI_Wtime() - start) / iterations;
  }

  /// Rank 0 decides for all how many operations make a block.
  int iterations_for(std::size_t count) {
    const double seconds = std::max(block(false, count, 3), block(true, count, 3));
    int iterations = static_cast<int>(std::min(1e6, options_.block_ms * 1e-3 / std::max(seconds, 1e-9)));
    MPI_Bcast(&iterations, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return std::max(iterations, 1);
  }

  /// What this rank has had of its core so far.
  struct Use {
    double wall = MPI_Wtime();
    double cpu = 0;
    long switches = 0;
  };
  static Use use_so_far() {
    Use use;
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    use.switches = usage.ru_nivcsw;
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    use.cpu = static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
    return use;
  }

  /// Whether other programs took a core from any rank since `begin`. With more ranks than cores they take it from each
  /// other, and nothing can be told.
  bool was_disturbed(const Use& begin) const {
    const Use end = use_so_far();
    const double wall = end.wall - begin.wall;
    const bool mine = static_cast<double>(end.switches - begin.switches) > kQuietSwitches * wall ||
                      end.cpu - begin.cpu < kQuietShare * wall;
    int one = mine ? 1 : 0, any = 0;
    MPI_Allreduce(&one, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return any != 0 && ranks_ <= static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  }

  void measure(std::size_t bytes) {
    const std::size_t count = bytes / sizeof(float);
    const int iterations = iterations_for(count);
    for (int i = 0; i < options_.pairs && healthy_; ++i) {
      const bool ours_first = i % 2 == 0;
      const Use begin = use_so_far();
      const double before = ping_.one_way_ns();
      const double first = block(ours_first, count, iterations);
      const double between = ping_.one_way_ns();
      const double second = block(!ours_first, count, iterations);
      const double after = ping_.one_way_ns();
      const State state = was_disturbed(begin) ? State::kDisturbed : state_of(before, between, after);
      tally_.add(bytes, state, ours_first ? Pair{first, second} : Pair{second, first});
    }
  }

  const Options& options_;
  tuttiComm_t comm_;
  Ping ping_;
  std::vector<float> send_, recv_;
  Tally tally_;
  int rank_ = 0, ranks_ = 1;
  bool healthy_ = true;
};

std::string mpi_name() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string name(text, static_cast<std::size_t>(length));
  return name.substr(0, name.find(','));
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
    const Setup setup{race.ranks(), options.in_place, mpi_name()};
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
  CLI::App app{"Tutti against MPI_Allreduce, paired; run it by bench/race.sh.", "race"};
  const auto size = CLI::AsSizeValue(false);
  app.add_option("-b,--minbytes", options.min_bytes, "smallest size, at least 4 (8)")->transform(size);
  app.add_option("-e,--maxbytes", options.max_bytes, "largest size (64M)")->transform(size);
  app.add_option("--rounds", options.rounds, "sweeps over all sizes (6)")->check(CLI::Range(1, 100000));
  app.add_option("--pairs", options.pairs, "pairs of blocks of a size in a round (6)")->check(CLI::Range(1, 100000));
  app.add_option("--block-ms", options.block_ms, "length of a block in milliseconds (4)");
  app.add_flag("--in-place", options.in_place, "sum in place");
  app.add_option("-J,--json", options.json_path, "write the medians to this file");
  CLI11_PARSE(app, argc, argv);
  if (options.min_bytes < sizeof(float) || options.max_bytes < options.min_bytes) {
    std::fprintf(stderr, "race: sizes are at least 4 bytes, the smallest first\n");
    return 2;
  }
  MPI_Init(&argc, &argv);
  const int code = tutti::race::run(options);
  if (code != 0) MPI_Abort(MPI_COMM_WORLD, code);
  MPI_Finalize();
  return 0;
}

// Tutti against Open MPI between hosts, in turn in one program: all_reduce and barrier. Run it by bench/hosts_race.sh.
//
// Blocks of operations alternate, and which comes first alternates too; a pair's ratio is taken of its own two blocks,
// so that both see the same machine. The slowest rank's time counts.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#include <tutti/tutti_mpi.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <vector>

namespace {

struct Options {
  std::size_t min_bytes = 8, max_bytes = 64ULL << 20, factor = 8;
  int pairs = 7;
  double block_ms = 100;
  double raw_gigabits = 0;  ///< what a link carries; 0: not limited
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class HostsRace {
 public:
  HostsRace(const Options& options, tuttiComm_t comm)
      : options_(options), comm_(comm), send_(options.max_bytes / sizeof(float) + 1), recv_(send_.size()) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  }

  void run() {
    if (rank_ == 0)
      std::printf("%12s %12s %12s %7s %14s %s\n", "bytes", "tutti us", "mpi us", "ratio", "busbw GB/s",
                  options_.raw_gigabits > 0 ? "of the raw rate" : "");
    measure(0);
    for (std::size_t bytes = options_.min_bytes; bytes <= options_.max_bytes; bytes *= options_.factor) {
      check(bytes);
      measure(bytes);
    }
  }

 private:
  /// No bytes: a barrier.
  void operate(bool ours, std::size_t bytes) {
    const std::size_t count = bytes / sizeof(float);
    if (!ours) {
      if (bytes == 0)
        MPI_Barrier(MPI_COMM_WORLD);
      else
        MPI_Allreduce(send_.data(), recv_.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      return;
    }
    const tuttiResult_t code =
        bytes == 0 ? tuttiBarrier(comm_, nullptr)
                   : tuttiAllReduce(send_.data(), recv_.data(), count, tuttiFloat32, tuttiSum, comm_, nullptr);
    if (code == tuttiSuccess) return;
    std::fprintf(stderr, "rank %d: %s\n", rank_, tuttiGetLastError(comm_));
    MPI_Abort(MPI_COMM_WORLD, 1);
  }

  /// Small integers: their sum is exact and known.
  void check(std::size_t bytes) {
    const std::size_t count = bytes / sizeof(float);
    const auto n = static_cast<std::size_t>(ranks_);
    for (std::size_t i = 0; i < count; ++i) send_[i] = static_cast<float>(i % 1021 + static_cast<std::size_t>(rank_));
    operate(true, bytes);
    for (std::size_t i = 0; i < count; ++i) {
      if (recv_[i] == static_cast<float>(n * (i % 1021) + n * (n - 1) / 2)) continue;
      std::fprintf(stderr, "rank %d: a wrong sum of %zu bytes at element %zu\n", rank_, bytes, i);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }

  /// Seconds an operation, of the slowest rank.
  double block(bool ours, std::size_t bytes, int iterations) {
    operate(ours, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (int i = 0; i < iterations; ++i) operate(ours, bytes);
    double mine = (MPI_Wtime() - start) / iterations, slowest = 0;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
  }

  void measure(std::size_t bytes) {
    const double guess = std::max(block(true, bytes, 2), block(false, bytes, 2));
    const int iterations = std::max(2, static_cast<int>(options_.block_ms * 1e-3 / guess));
    std::vector<double> ours, theirs, ratios;
    for (int pair = 0; pair < options_.pairs; ++pair) {
      const bool ours_first = pair % 2 == 0;
      const double first = block(ours_first, bytes, iterations);
      const double second = block(!ours_first, bytes, iterations);
      ours.push_back(ours_first ? first : second);
      theirs.push_back(ours_first ? second : first);
      ratios.push_back(ours.back() / theirs.back());
    }
    if (rank_ == 0) print(bytes, median(ours), median(theirs), median(ratios));
  }

  void print(std::size_t bytes, double ours, double theirs, double ratio) const {
    const double busbw = 2.0 * (ranks_ - 1) / ranks_ * static_cast<double>(bytes) / ours * 1e-9;
    std::printf("%12zu %12.1f %12.1f %7.3f %14.4f", bytes, ours * 1e6, theirs * 1e6, ratio, busbw);
    if (options_.raw_gigabits > 0 && bytes > 0) std::printf(" %14.1f %%", busbw * 8 / options_.raw_gigabits * 100);
    std::printf("%s\n", bytes == 0 ? "   (barrier)" : "");
    std::fflush(stdout);
  }

  const Options& options_;
  tuttiComm_t comm_;
  std::vector<float> send_, recv_;
  int rank_ = 0, ranks_ = 1;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Tutti against Open MPI between hosts, paired; run it by bench/hosts_race.sh.", "hosts_race"};
  const auto size = CLI::AsSizeValue(false);
  app.add_option("-b,--minbytes", options.min_bytes, "smallest size, at least 4 (8)")->transform(size);
  app.add_option("-e,--maxbytes", options.max_bytes, "largest size (64M)")->transform(size);
  app.add_option("-f,--factor", options.factor, "between sizes (8)")->check(CLI::Range(2, 1024));
  app.add_option("--pairs", options.pairs, "pairs of blocks a size (7)")->check(CLI::Range(1, 100000));
  app.add_option("--block-ms", options.block_ms, "length of a block in milliseconds (100)");
  app.add_option("--raw", options.raw_gigabits, "what a link carries, in Gbit/s, to print the share of it");
  CLI11_PARSE(app, argc, argv);
  if (options.min_bytes < sizeof(float)) return 2;
  MPI_Init(&argc, &argv);
  tuttiComm_t comm = nullptr;
  if (tuttiCommInitMPI(&comm, MPI_COMM_WORLD, nullptr) != tuttiSuccess) {
    std::fprintf(stderr, "join: %s\n", tuttiGetLastError(nullptr));
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  HostsRace(options, comm).run();
  tuttiCommDestroy(comm);
  MPI_Finalize();
  return 0;
}

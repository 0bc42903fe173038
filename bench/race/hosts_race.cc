// Tutti against Open MPI, and Gloo where it is installed, between hosts, in turn in one program: all_reduce and
// barrier. Run it by bench/hosts_race.sh.
//
// Blocks of operations take turns, and who comes first changes too; a ratio is taken of the blocks of one round, so
// that all see the same machine. The slowest rank's time counts.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#include <tutti/tutti_mpi.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gloo_peer.h"
#include "mpi_call.h"

namespace {

struct Options {
  std::size_t min_bytes = 8, max_bytes = 64ULL << 20, factor = 8;
  int rounds = 7;
  double block_ms = 100;
  double raw_gigabits = 0;  ///< what a link carries; 0: not limited
  std::string interface = "eth0";
  int hosts = 0;  ///< how many there are, for the report
  std::string json_path;
};

enum Runner { kTutti = 0, kMpi = 1, kGloo = 2 };
constexpr std::size_t kRunners = 3;
using Times = std::array<std::vector<double>, kRunners>;  ///< seconds an operation, by round
using Json = nlohmann::ordered_json;

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
    if (!options.interface.empty()) gloo_ = GlooPeer::connect(options.interface);
  }

  void run() {
    if (rank_ == 0)
      std::printf("%12s %12s %12s %7s %12s %7s %14s %s\n", "bytes", "tutti us", "mpi us", "ratio", "gloo us", "ratio",
                  "busbw GB/s", options_.raw_gigabits > 0 ? "of the raw rate" : "");
    measure(0);
    for (std::size_t bytes = options_.min_bytes; bytes <= options_.max_bytes; bytes *= options_.factor) {
      check(bytes);
      measure(bytes);
    }
    if (rank_ == 0 && !options_.json_path.empty()) std::ofstream(options_.json_path) << report();
  }

 private:
  std::size_t runners() const { return gloo_ ? kRunners : kRunners - 1; }

  /// No bytes: a barrier.
  void operate(std::size_t runner, std::size_t bytes) {
    const std::size_t count = bytes / sizeof(float);
    if (runner == kGloo) return bytes == 0 ? gloo_->barrier() : gloo_->all_reduce(send_.data(), recv_.data(), count);
    if (runner == kMpi) {
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
    for (std::size_t runner = 0; runner < runners(); ++runner) {
      std::fill(recv_.begin(), recv_.end(), 0.0f);
      operate(runner, bytes);
      for (std::size_t i = 0; i < count; ++i) {
        if (recv_[i] == static_cast<float>(n * (i % 1021) + n * (n - 1) / 2)) continue;
        std::fprintf(stderr, "rank %d: a wrong sum of %zu bytes at element %zu (%zu)\n", rank_, bytes, i, runner);
        MPI_Abort(MPI_COMM_WORLD, 1);
      }
    }
  }

  /// Seconds an operation, of the slowest rank.
  double block(std::size_t runner, std::size_t bytes, int iterations) {
    operate(runner, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (int i = 0; i < iterations; ++i) operate(runner, bytes);
    double mine = (MPI_Wtime() - start) / iterations, slowest = 0;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
  }

  void measure(std::size_t bytes) {
    std::array<int, kRunners> iterations{};
    for (std::size_t runner = 0; runner < runners(); ++runner)
      iterations[runner] = std::max(2, static_cast<int>(options_.block_ms * 1e-3 / block(runner, bytes, 2)));
    Times times;
    for (int round = 0; round < options_.rounds; ++round)
      for (std::size_t turn = 0; turn < runners(); ++turn) {
        const std::size_t runner = (turn + static_cast<std::size_t>(round)) % runners();
        times[runner].push_back(block(runner, bytes, iterations[runner]));
      }
    if (rank_ != 0) return;
    print(bytes, times);
    results_.push_back(result(bytes, times));
  }

  static double ratio(const Times& times, Runner to) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < times[to].size(); ++i) ratios.push_back(times[kTutti][i] / times[to][i]);
    return median(ratios);
  }

  std::string algorithm(std::size_t bytes) const {
    char name[64] = "";
    const std::string what = bytes == 0 ? "algorithm:barrier:0" : "algorithm:all_reduce:" + std::to_string(bytes);
    return tuttiCommGetInfo(comm_, what.c_str(), name, sizeof(name)) == tuttiSuccess
               ? (bytes == 0 ? "barrier " : "") + std::string(name)
               : "?";
  }

  /// GB/s.
  double bus_bandwidth(std::size_t bytes, const Times& times) const {
    return 2.0 * (ranks_ - 1) / ranks_ * static_cast<double>(bytes) / median(times[kTutti]) * 1e-9;
  }

  /// The share of a link's rate that a host needs for the data that it has to send, however many ranks it has.
  double share_of_link(std::size_t bytes, const Times& times) const {
    const double sent = 2.0 * (options_.hosts - 1) / options_.hosts * static_cast<double>(bytes);
    return sent / median(times[kTutti]) * 1e-9 * 8 / options_.raw_gigabits;
  }

  Json result(std::size_t bytes, const Times& times) const {
    Json json{{"size", bytes},
              {"algorithm", algorithm(bytes)},
              {"tutti_us", median(times[kTutti]) * 1e6},
              {"bus_bw", bus_bandwidth(bytes, times)}};
    if (options_.raw_gigabits > 0) json["of_raw_rate"] = share_of_link(bytes, times);
    json["peers"]["openmpi"] = {{"time_us", median(times[kMpi]) * 1e6}, {"ratio", ratio(times, kMpi)}};
    if (gloo_) json["peers"]["gloo"] = {{"time_us", median(times[kGloo]) * 1e6}, {"ratio", ratio(times, kGloo)}};
    return json;
  }

  std::string report() const {
    Json json{{"hosts", options_.hosts}, {"ranks", ranks_}, {"raw_gigabits", options_.raw_gigabits}};
    json["peers"]["openmpi"] = tutti::race::mpi_name();
    if (gloo_) json["peers"]["gloo"] = "Gloo";
    json["results"] = results_;
    return json.dump(2) + "\n";
  }

  void print(std::size_t bytes, const Times& times) const {
    const double busbw = bus_bandwidth(bytes, times);
    std::printf("%12zu %12.1f %12.1f %7.3f", bytes, median(times[kTutti]) * 1e6, median(times[kMpi]) * 1e6,
                ratio(times, kMpi));
    if (gloo_)
      std::printf(" %12.1f %7.3f", median(times[kGloo]) * 1e6, ratio(times, kGloo));
    else
      std::printf(" %12s %7s", "-", "-");
    std::printf(" %14.4f", busbw);
    if (options_.raw_gigabits > 0 && bytes > 0) std::printf(" %14.1f %%", share_of_link(bytes, times) * 100);
    std::printf("  %s\n", algorithm(bytes).c_str());
    std::fflush(stdout);
  }

  const Options& options_;
  tuttiComm_t comm_;
  std::vector<float> send_, recv_;
  std::unique_ptr<GlooPeer> gloo_;
  int rank_ = 0, ranks_ = 1;
  Json results_ = Json::array();  ///< rank 0's
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Tutti against Open MPI and Gloo between hosts, in turn; run it by bench/hosts_race.sh.", "hosts_race"};
  const auto size = CLI::AsSizeValue(false);
  app.add_option("-b,--minbytes", options.min_bytes, "smallest size, at least 4 (8)")->transform(size);
  app.add_option("-e,--maxbytes", options.max_bytes, "largest size (64M)")->transform(size);
  app.add_option("-f,--factor", options.factor, "between sizes (8)")->check(CLI::Range(2, 1024));
  app.add_option("--rounds", options.rounds, "blocks of each a size (7)")->check(CLI::Range(1, 100000));
  app.add_option("--gloo-interface", options.interface, "that Gloo uses (eth0); empty: without Gloo");
  app.add_option("--block-ms", options.block_ms, "length of a block in milliseconds (100)");
  app.add_option("--hosts", options.hosts, "how many there are, for the report; bench/hosts_race.sh says it");
  app.add_option("-J,--json", options.json_path, "write the medians to this file");
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

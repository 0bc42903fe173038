// tutti-perf: measures and checks collectives. Only the C API of the library is used here.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "compare.h"
#include "gpu_bench.h"
#include "measure.h"
#include "options.h"
#include "overlap.h"
#include "peers/stage.h"
#include "ranks.h"
#include "report.h"
#include "secret_file.h"
#include "sweep.h"
#include "sweep_report.h"

namespace {

using namespace tutti::perf;

/// If several sizes give the same count of elements, there is one row for them.
void add_rows(const Options& options, const TypeName& type, Operation op, int root, int ranks, std::vector<Row>* rows) {
  bool first = true;
  for (const std::size_t size : sizes_of(options)) {
    Row row = make_row(options.collective, type, size, ranks);
    row.op = op;
    row.root = root;
    if (first || rows->back().count != row.count) rows->push_back(row);
    first = false;
  }
}

std::vector<int> roots_of(const Options& options, int ranks) {
  if (!options.collective.rooted) return {0};
  if (!options.all_roots) return options.roots;
  std::vector<int> roots;
  for (int rank = 0; rank < ranks; ++rank) roots.push_back(rank);
  return roots;
}

/// The rows of the table.
std::vector<Row> rows_of(const Options& options, int ranks) {
  std::vector<Row> rows;
  const bool reduces = options.collective.reduces;
  const auto ops = reduces ? options.ops : std::vector{Operation::kSum};
  const auto types = options.collective.collective == Collective::kBarrier ? std::vector{tuttiUint8} : options.types;
  for (const tuttiDataType_t type : types) {
    for (const Operation op : ops) {
      if (reduces && !is_defined(op, type_of(type))) continue;
      for (const int root : roots_of(options, ranks)) add_rows(options, type_of(type), op, root, ranks, &rows);
    }
  }
  return rows;
}

bool fits(std::size_t bytes, int ranks, std::string* text) {
  const double memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (2.0 * static_cast<double>(bytes) * ranks < 0.9 * memory) return true;
  *text = std::to_string(ranks) + " ranks with two buffers of " + size_text(bytes) +
          "B do not fit this machine's memory; lower -e or --ranks";
  return false;
}

bool roots_exist(const Options& options, int ranks, std::string* text) {
  for (const int root : roots_of(options, ranks)) {
    if (root < ranks) continue;
    *text = "-r: there is no rank " + std::to_string(root) + ", there are " + std::to_string(ranks) + " ranks";
    return false;
  }
  return true;
}

int complain(const std::string& text) {
  std::fprintf(stderr, "tutti-perf: %s\n", text.c_str());
  return kBadOptions;
}

int fail(int rank, const std::string& text) {
  std::fprintf(stderr, "tutti-perf: rank %d: %s\n", rank, text.c_str());
  return kFailed;
}

/// Pairs of type and operation that this version does not offer are left out of a list. Asked for alone, they are an
/// error.
bool may_skip(tuttiResult_t code, const Options& options) {
  return code == tuttiUnsupported && (options.every_pair || options.types.size() * options.ops.size() > 1);
}

int run_rows(Bench* bench, const std::vector<Row>& rows, const Options& options, int rank, Report* report) {
  bool right = true;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (report != nullptr) report->progress(rows[i], i, rows.size());
    RowResult result;
    const tuttiResult_t code = bench->run(rows[i], &result);
    if (may_skip(code, options)) {
      if (report != nullptr) report->note("skipped: " + bench->text());
      continue;
    }
    if (code != tuttiSuccess) return fail(rank, bench->text());
    right = right && wrong_of(result) == 0;
    if (report != nullptr) report->add(std::move(result));
  }
  if (report != nullptr) right = report->end() && right;
  return right ? 0 : kFailedInOrder;
}

/// Measures the rows; rank 0 reports.
int run_table(Bench* bench, const std::vector<Row>& rows, const Options& options, int rank, Report report) {
  if (rank != 0) return run_rows(bench, rows, options, rank, nullptr);
  report.begin();
  return run_rows(bench, rows, options, rank, &report);
}

/// The collectives of a sweep that have algorithms to choose from.
std::vector<CollectiveName> swept(const Options& options) {
  if (!options.every_collective) return {options.collective};
  std::vector<CollectiveName> names;
  for (const CollectiveName& name : collective_names())
    if (name.collective != Collective::kSendRecv) names.push_back(name);
  return names;
}

int sweep_rank(const Options& options, tuttiComm_t comm, int rank, int ranks, const char* ranks_are) {
  std::vector<SweepRow> cells;
  if (rank == 0) begin_sweep(options, ranks, ranks_are);
  int code = 0;
  for (const CollectiveName& collective : swept(options)) {
    Options one = options;
    one.collective = collective;
    code = std::max(code, run_sweep(one, comm, rank, ranks, rows_of(one, ranks), &cells));
    if (code == kFailed) return code;
  }
  if (rank == 0 && !end_sweep(options, ranks, ranks_are, cells)) code = kFailedInOrder;
  return code;
}

int run_rank(const Options& options, tuttiComm_t comm, int rank, int ranks, const char* ranks_are) {
  std::string text;
  if (!roots_exist(options, ranks, &text)) return rank == 0 ? complain(text) : kBadOptions;
  if (options.sweep) return sweep_rank(options, comm, rank, ranks, ranks_are);
  const std::vector<Row> rows = rows_of(options, ranks);
  if (options.overlap) return run_overlap(options, comm, rank, ranks, ranks_are, rows);
  std::size_t bytes = 0;
  for (const Row& row : rows) bytes = std::max(bytes, row.bytes());
  if (options.gpu.devices == 0) {
    Bench bench(comm, rank, ranks, options);
    if (!bench.allocate(bytes)) return fail(rank, bench.text());
    return run_table(&bench, rows, options, rank, Report(options, ranks, ranks_are, nullptr));
  }
  GpuBench bench(comm, rank, ranks, options, *find_gpu(&text));  // not nullptr, because the rank uses it already
  if (!bench.allocate(bytes)) return fail(rank, bench.text());
  return run_table(&bench, rows, options, rank, Report(options, ranks, ranks_are, &bench.facts()));
}

/// Checks that the memory is enough, for buffers of each library, and compares.
int start_comparison(const Options& options, int ranks) {
  std::string text;
  if (ranks > tutti::peers::kMostRanks)
    return complain("--compare: at most " + std::to_string(tutti::peers::kMostRanks) + " ranks");
  const auto libraries = static_cast<int>(options.compare.peers.size()) + 1;
  if (!fits(options.max_bytes, ranks * libraries, &text)) return complain(text);
  return compare(options, ranks, rows_of(options, ranks));
}

/// Whether there are as many devices as -g asks for.
bool has_devices(const Options& options, std::string* text) {
  if (options.gpu.devices == 0) return true;
  std::string why;
  Gpu* const gpu = find_gpu(&why);
  if (gpu == nullptr) return *text = "-g: " + why, false;
  if (options.gpu.devices <= gpu->devices()) return true;
  *text = "-g " + std::to_string(options.gpu.devices) + ": there is no device " + std::to_string(gpu->devices()) + ":";
  for (int i = 0; i < gpu->devices(); ++i) *text += " " + std::to_string(i) + " is " + gpu->name(i) + ";";
  *text += " several ranks share one with --ranks-per-gpu";
  return false;
}

int ranks_of(const Options& options) {
  if (options.ranks > 0) return options.ranks;
  return options.gpu.devices > 0 ? options.gpu.devices * options.gpu.ranks_each : default_ranks();
}

int run(const Options& options, int argc, char** argv) {
  const RankBody body = [&](tuttiComm_t comm, int rank, int ranks, const char* ranks_are) {
    return run_rank(options, comm, rank, ranks, ranks_are);
  };
  std::string text;
  if (options.child_rank >= 0) return run_child(options, body);
  if (!has_devices(options, &text)) return complain(text);
  const char* launcher = launcher_name();
  if (launcher != nullptr && (options.ranks > 0 || options.threads || options.gpu.ranks_each > 1)) {
    return complain("--ranks, --threads and --ranks-per-gpu are for runs without a launcher (this is a rank of " +
                    std::string(launcher) + ")");
  }
  if (launcher != nullptr && !options.compare.peers.empty()) {
    return complain("--compare starts its own ranks (this is a rank of " + std::string(launcher) + ")");
  }
  if (launcher != nullptr) return run_launched(options, body);
  const int ranks = ranks_of(options);
  if (!roots_exist(options, ranks, &text) || !fits(options.max_bytes, ranks, &text)) return complain(text);
  if (!options.compare.peers.empty()) return start_comparison(options, ranks);
  const bool threads = options.threads || (options.gpu.devices > 0 && options.ranks == 0);
  return threads ? run_threads(ranks, options, body) : run_processes(ranks, argc, argv);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  const Parsed parsed = parse_options(argc, argv, &options);
  if (parsed.stop) return parsed.code;
  // These are set before the library reads its settings; ranks started here inherit them.
  if (!options.algorithm.empty()) setenv("TUTTI_ALGO", options.algorithm.c_str(), 1);
  if (!options.transport.empty()) setenv("TUTTI_TRANSPORT", options.transport.c_str(), 1);
  if (options.gpu.devices > 0) {
    // Streams of ranks that share a device must not share a queue of launches, or one's launch would wait for
    // another's.
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  }
  if (options.list_settings) {
    print_settings();
    return 0;
  }
  if (!options.secret_file.empty()) {
    std::string text;
    if (make_secret_file(options.secret_file, &text)) return 0;
    return complain(text);
  }
  return run(options, argc, argv);
}

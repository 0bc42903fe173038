#include "options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "compare_options.h"
#include "gpu_options.h"

namespace tutti::perf {
namespace {

/// The options as typed. They are turned into Options once all of them are there.
struct Typed {
  std::string collective, min_bytes = "8", max_bytes = "64M", step_bytes, op = "sum", type = "float", root = "0", wire,
                          compare;
  std::optional<double> step_factor;
  int blocking = 0, average = 1, cpu_time = 0, registered = 0;
  bool version = false;
};

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> words;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    words.push_back(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return words;
}

template <class Rows>
std::string joined_names(const Rows& rows) {
  std::string text;
  for (const auto& row : rows) text += (text.empty() ? "" : " ") + std::string(row.name);
  return text;
}

std::size_t size_or_throw(const char* option, const std::string& text) {
  const auto bytes = parse_size(text);
  if (!bytes) throw CLI::ValidationError(option, "'" + text + "' is not a size (examples: 8, 64K, 1.5M, 2G)");
  return *bytes;
}

void set_types(const std::string& text, Options* options) {
  options->types.clear();
  if (text == "all") {
    for (const TypeName& row : type_names()) options->types.push_back(row.type);
    options->every_pair = true;
    return;
  }
  for (const std::string& word : split_list(text)) {
    const TypeName* row = find_type(word);
    if (row == nullptr) {
      throw CLI::ValidationError("-d", "'" + word + "' is no type; one of: " + joined_names(type_names()) + " all");
    }
    options->types.push_back(row->type);
  }
}

void set_ops(const std::string& text, Options* options) {
  options->ops.clear();
  if (text == "all") {
    for (const OpName& row : op_names()) {
      if (row.in_all) options->ops.push_back(row.op);
    }
    options->every_pair = true;
    return;
  }
  for (const std::string& word : split_list(text)) {
    const OpName* row = find_op(word);
    if (row == nullptr) {
      throw CLI::ValidationError("-o", "'" + word + "' is no operation; one of: " + joined_names(op_names()) + " all");
    }
    options->ops.push_back(row->op);
  }
}

void set_roots(const std::string& text, Options* options) {
  options->all_roots = text == "all";
  if (options->all_roots) return;
  options->roots.clear();
  for (const std::string& word : split_list(text)) {
    if (word.empty() || word.size() > 8 || word.find_first_not_of("0123456789") != std::string::npos) {
      throw CLI::ValidationError("-r", "'" + word + "' is no rank (a number, a list of numbers or all)");
    }
    options->roots.push_back(std::stoi(word));
  }
}

void set_wire(const std::string& text, Options* options) {
  if (text.empty()) return;
  const TypeName* row = find_type(text);
  if (row == nullptr || !row->floating || row->bytes > 4) {
    throw CLI::ValidationError("--wire", "'" + text + "' is no wire type; one of: half bfloat16 f8e4m3 f8e5m2 float");
  }
  if (!options->collective.reduces) {
    throw CLI::ValidationError("--wire", std::string(options->collective.name) + " reduces nothing");
  }
  if (row->type == tuttiFloat32) return;
  if (options->deterministic) throw CLI::ValidationError("--wire", "excludes --deterministic");
  options->wire = row->type;
}

void check_pairs(const Options& options) {
  if (options.every_pair || !options.collective.reduces) return;
  for (const tuttiDataType_t type : options.types) {
    for (const Operation op : options.ops) {
      if (is_defined(op, type_of(type))) continue;
      throw CLI::ValidationError("-o", std::string(name_of(op)) + " is not defined for " + type_of(type).name);
    }
  }
}

void check_ranges(const Options& options) {
  if (options.min_bytes > options.max_bytes) {
    throw CLI::ValidationError("-b", "the smallest size is above the largest (-e)");
  }
  if (options.step_factor <= 1) throw CLI::ValidationError("-f", "the factor must be above 1");
  if (options.json_path.empty()) return;
  const auto folder = std::filesystem::path(options.json_path).parent_path();
  std::error_code error;
  if (!folder.empty() && !std::filesystem::is_directory(folder, error)) {
    throw CLI::ValidationError("-J", "there is no directory '" + folder.string() + "'");
  }
}

void check_sweep(const Options& options) {
  if (!options.sweep) return;
  if (options.collective.collective == Collective::kSendRecv) {
    throw CLI::ValidationError("--sweep", "send_recv has no algorithms to choose from");
  }
  if (!options.algorithm.empty()) throw CLI::ValidationError("--sweep", "excludes --algo");
  if (options.types.size() * options.ops.size() * options.roots.size() > 1 || options.all_roots) {
    throw CLI::ValidationError("--sweep", "takes one type, one operation and one root");
  }
  if (options.wire != tuttiDataTypeMax || options.deterministic || options.cpu_time) {
    throw CLI::ValidationError("--sweep", "excludes --wire, --deterministic and -C 1");
  }
}

void check_overlap(const Options& options) {
  if (!options.overlap) return;
  if (options.sweep || options.isolated || options.cpu_time)
    throw CLI::ValidationError("--overlap", "excludes --sweep, -z 1 and -C 1");
}

void set_options(const CLI::App& app, const Typed& typed, Options* options) {
  options->every_collective = options->sweep && typed.collective == "all";
  const CollectiveName* row = options->every_collective ? &collective_names()[0] : find_collective(typed.collective);
  if (row == nullptr) {
    throw CLI::ValidationError("collective",
                               typed.collective.empty()
                                   ? "name one of: " + joined_names(collective_names())
                                   : "'" + typed.collective + "' is none; one of: " + joined_names(collective_names()));
  }
  options->collective = *row;
  options->min_bytes = size_or_throw("-b", typed.min_bytes);
  options->max_bytes = size_or_throw("-e", typed.max_bytes);
  if (!typed.step_bytes.empty()) {
    options->step_bytes = size_or_throw("-i", typed.step_bytes);
    if (options->step_bytes == 0) throw CLI::ValidationError("-i", "the step must be above 0");
  }
  options->step_factor = typed.step_factor.value_or(options->sweep || options->overlap ? 8 : 2);
  set_types(typed.type, options);
  set_ops(typed.op, options);
  set_roots(typed.root, options);
  set_wire(typed.wire, options);
  options->isolated = typed.blocking != 0;
  options->registered = typed.registered != 0;
  options->cpu_time = typed.cpu_time != 0;
  options->average = static_cast<Average>(typed.average);
  check_pairs(*options);
  check_ranges(*options);
  check_sweep(*options);
  check_overlap(*options);
  set_compare(app, typed.compare, options);
  check_gpu(app, *options);
}

void declare(CLI::App* app, Typed* typed, Options* options) {
  app->option_defaults()->take_last();  // so that a script may add options to a command line that has them already
  app->add_option("collective", typed->collective, joined_names(collective_names()));
  app->add_option("-b,--minbytes", typed->min_bytes, "smallest size (K, M, G: powers of 1024; default 8)");
  app->add_option("-e,--maxbytes", typed->max_bytes, "largest size (default 64M)");
  app->add_option("-i,--stepbytes", typed->step_bytes, "step between sizes in bytes, instead of a factor");
  app->add_option("-f,--stepfactor", typed->step_factor, "factor between sizes (default 2)");
  app->add_option("-n,--iters", options->iterations,
                  "timed operations a size; 0 (default): what fits 0.1 s, at least 5")
      ->check(CLI::Range(0, 1000000000));
  app->add_option("-w,--warmup_iters", options->warmups, "untimed operations a size (default 5)")
      ->check(CLI::Range(0, 1000000000));
  app->add_option("-c,--check", options->checks, "checking operations a size (default 1; 0: no check)")
      ->check(CLI::Range(0, 1000000));
  app->add_option("-o,--op", typed->op,
                  "operation, comma list or all: sum prod max min avg band bor bxor mulsum; or custom");
  app->add_option("-d,--datatype", typed->type, "type, comma list or all (default float)");
  app->add_option("-r,--root", typed->root,
                  "root of broadcast, reduce, gather, scatter: rank, comma list or all (default 0)");
  app->add_option("-z,--blocking", typed->blocking,
                  "0: operations back to back (default); 1: a barrier before each, which is not timed")
      ->check(CLI::Range(0, 1));
  app->add_option("-R,--local_register", typed->registered,
                  "1: buffers from tuttiMemAlloc, which local peers may read directly (default 0)")
      ->check(CLI::Range(0, 1));
  app->add_option("-J,--output_file", options->json_path, "write the results as JSON to this file");
  app->add_option("-C,--report_cputime", typed->cpu_time, "1: CPU time of the calling thread instead of wall time")
      ->check(CLI::Range(0, 1));
  app->add_option("-a,--average", typed->average, "the ranks' times as one: 0 rank 0, 1 mean (default), 2 min, 3 max")
      ->check(CLI::Range(0, 3));
  app->add_option("-T,--timeout", options->timeout_seconds, "seconds an operation may wait for a silent rank (0: ever)")
      ->check(CLI::Range(0.0, 1e9));
  app->add_option("--ranks", options->ranks, "ranks to start on this machine (default: one a core)")
      ->check(CLI::Range(1, 4096));
  app->add_flag("--threads", options->threads, "ranks are threads of one process instead of processes");
  app->add_option("--wire", typed->wire, "type that float travels as where it is reduced: half bfloat16 f8e4m3 f8e5m2");
  app->add_flag("--deterministic", options->deterministic, "results that depend on the ranks' data only");
  app->add_option("--algo", options->algorithm, "algorithm for these ranks (sets TUTTI_ALGO)");
  app->add_option("--transport", options->transport, "transport for these ranks (sets TUTTI_TRANSPORT)");
  app->add_flag("--sweep", options->sweep,
                "measure every algorithm at every size (factor 8 unless -f or -i says), and how far the chosen one is "
                "from the best; collective: one of them, or all");
  app->add_flag("--overlap", options->overlap,
                "operations on a stream beside a computation of the caller's: how much is hidden, and what it slows "
                "down (factor 8 unless -f or -i says)");
  declare_compare(app, &typed->compare, &options->compare);
  declare_gpu(app, &options->gpu);
  app->add_flag("--env", options->list_settings, "list every setting with its value, default and meaning");
  app->add_option("--make-secret", options->secret_file, "write a new secret for TUTTI_SECRET_FILE into this file");
  app->add_flag("--version", typed->version, "print the library's version");
  app->add_option("--child-rank", options->child_rank)->group("");
  app->add_option("--child-ranks", options->child_ranks)->group("");
  app->add_option("--child-id-fd", options->child_id_fd)->group("");
}

}  // namespace

Parsed parse_options(int argc, char** argv, Options* options) {
  CLI::App app{
      "Measures and checks collectives of Tutti. Starts its own ranks on this machine, or joins those that mpirun,\n"
      "torchrun or srun started. Exit code: 0 all right, 1 a wrong result or an error, 2 bad options.",
      "tutti-perf"};
  Typed typed;
  declare(&app, &typed, options);
  try {
    app.parse(argc, argv);
    if (typed.version) {
      int version = 0;
      tuttiGetVersion(&version);
      std::printf("tutti %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
      return {true, 0};
    }
    if (!options->list_settings && options->secret_file.empty()) set_options(app, typed, options);
  } catch (const CLI::Success& help) {
    return {true, app.exit(help)};
  } catch (const CLI::Error& error) {
    std::fprintf(stderr, "tutti-perf: %s\nRun tutti-perf --help for the options.\n", error.what());
    return {true, kBadOptions};
  }
  return {};
}

std::vector<std::size_t> sizes_of(const Options& options) {
  if (options.collective.collective == Collective::kBarrier) return {0};
  std::vector<std::size_t> sizes;
  std::size_t size = options.min_bytes;
  while (size <= options.max_bytes) {
    sizes.push_back(size);
    const auto by_factor = static_cast<std::size_t>(std::floor(static_cast<double>(size) * options.step_factor));
    size = options.step_bytes > 0 ? size + options.step_bytes : std::max(size + 1, by_factor);
  }
  return sizes;
}

}  // namespace tutti::perf

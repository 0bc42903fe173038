#include "report.h"

#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "report_json.h"

namespace tutti::perf {
namespace {

void print_direction(const Row& row, const Direction& direction, int ranks) {
  const double seconds = direction.timing.average;
  std::printf("  %7s  %6.2f  %6.2f  ", time_text(seconds).c_str(), alg_bandwidth(row, seconds),
              bus_bandwidth(row, seconds, ranks));
  if (direction.wrong) {
    std::printf("%6" PRIu64, *direction.wrong);
  } else {
    std::printf("%6s", "N/A");
  }
}

void print_timing(const Timing& timing) {
  std::printf("  %7s %7s %7s", time_text(timing.min).c_str(), time_text(timing.p50).c_str(),
              time_text(timing.p99).c_str());
}

std::string floor_text(double seconds) { return seconds > 0 ? time_text(seconds) : "N/A"; }

std::string step_text(const Options& options) {
  if (options.step_bytes > 0) return std::to_string(options.step_bytes) + "(bytes)";
  char text[32];
  std::snprintf(text, sizeof text, "%g(factor)", options.step_factor);
  return text;
}

}  // namespace

std::string time_text(double seconds) {
  const double us = seconds * 1e6;
  char text[32];
  const int decimals = us >= 9999.5 ? 0 : us >= 99.995 ? 1 : us >= 0.9995 ? 2 : 3;
  std::snprintf(text, sizeof text, "%.*f", decimals, us);
  return text;
}

Report::Report(const Options& options, int ranks, const char* ranks_are, const GpuFacts* gpus)
    : options_(options), ranks_(ranks), ranks_are_(ranks_are), gpus_(gpus), terminal_(isatty(STDERR_FILENO) != 0) {}

void Report::print_devices() const {
  for (std::size_t i = 0; i < gpus_->devices.size(); ++i) {
    const GpuFacts::Device& device = gpus_->devices[i];
    std::printf("# device %zu: %s", i, device.name.c_str());
    if (device.copy_rate > 0) std::printf(", copies at %.1f GB/s (read and written)", device.copy_rate / 1e9);
    std::printf("\n");
  }
  std::printf("# device buffers, rank r on device r mod %d; times by %s\n", options_.gpu.devices,
              times_text(options_).c_str());
  std::printf("# floor: what moving the bytes takes at the device's own rate, out of place and in place (us)\n");
}

void Report::begin() const {
  int version = 0;
  tuttiGetVersion(&version);
  const std::string iterations = options_.iterations > 0 ? std::to_string(options_.iterations) : "auto";
  std::printf("# tutti-perf, tutti %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
  std::printf("# Collective test starting: %s\n", options_.collective.name);
  std::printf("# ranks %d (%s) minBytes %zu maxBytes %zu step: %s warmup iters: %d iters: %s check: %d\n", ranks_,
              ranks_are_, options_.min_bytes, options_.max_bytes, step_text(options_).c_str(), options_.warmups,
              iterations.c_str(), options_.checks);
  if (options_.wire != tuttiDataTypeMax) std::printf("# float travels as %s\n", type_of(options_.wire).name);
  if (options_.registered) std::printf("# buffers from tuttiMemAlloc\n");
  if (options_.deterministic) std::printf("# deterministic: results depend on the ranks' data only\n");
  std::printf("# %s\n", machine_text().c_str());
  if (gpus_ != nullptr) print_devices();
  std::printf("# size: %s\n#\n", options_.collective.size_is);
  const char* time = options_.cpu_time ? "cputime" : "time";
  std::printf("# %11s  %12s  %8s  %6s  %6s  %31s  %31s  %23s  %23s\n", "", "", "", "", "", "out-of-place        ",
              "in-place          ", "out-of-place us    ", "in-place us      ");
  std::printf("# %11s  %12s  %8s  %6s  %6s", "size", "count", "type", "redop", "root");
  for (int i = 0; i < 2; ++i) std::printf("  %7s  %6s  %6s  %6s", time, "algbw", "busbw", "#wrong");
  for (int i = 0; i < 2; ++i) std::printf("  %7s %7s %7s", "min", "p50", "p99");
  std::printf("  transport  %s\n", gpus_ == nullptr ? "algorithm" : "floor    floor  algorithm");
  std::printf("# %11s  %12s  %8s  %6s  %6s", "(B)", "(elements)", "", "", "");
  for (int i = 0; i < 2; ++i) std::printf("  %7s  %6s  %6s  %6s", "(us)", "(GB/s)", "(GB/s)", "");
  std::printf("\n");
  std::fflush(stdout);
}

void Report::clear_progress() const {
  if (terminal_) std::fputs("\r\033[K", stderr);
}

void Report::progress(const Row& row, std::size_t index, std::size_t rows) const {
  if (!terminal_) return;
  std::fprintf(stderr, "\r\033[K[%zu/%zu] %s %s %sB", index + 1, rows, row.collective.name, row.type.name,
               size_text(row.bytes()).c_str());
  std::fflush(stderr);
}

void Report::note(const std::string& text) const {
  clear_progress();
  std::printf("# %s\n", text.c_str());
  std::fflush(stdout);
}

void Report::add(RowResult result) {
  clear_progress();
  const Row& row = result.row;
  std::printf("%13zu  %12zu  %8s  %6s  %6d", row.bytes(), row.count,
              row.collective.collective == Collective::kBarrier ? "none" : row.type.name, op_text(row),
              row.collective.rooted ? row.root : -1);
  print_direction(row, result.out_of_place, ranks_);
  if (result.in_place) {
    print_direction(row, *result.in_place, ranks_);
  } else {
    std::printf("  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A");
  }
  print_timing(result.out_of_place.timing);
  if (result.in_place) {
    print_timing(result.in_place->timing);
  } else {
    std::printf("  %7s %7s %7s", "N/A", "N/A", "N/A");
  }
  std::printf("  %9s  ", result.transport.c_str());
  if (gpus_ != nullptr) {
    std::printf("%7s  %7s  ", floor_text(result.out_of_place.floor).c_str(),
                floor_text(result.in_place ? result.in_place->floor : 0).c_str());
  }
  std::printf("%s\n", result.algorithm.c_str());
  std::fflush(stdout);
  results_.push_back(std::move(result));
  (void)write_json(false);
}

/// The file is written after each row, so that the rows before a failure, or before whatever ends the program, are
/// kept.
bool Report::write_json(bool complete) const {
  return options_.json_path.empty() ||
         write_whole(options_.json_path, json_text(options_, ranks_, ranks_are_, results_, gpus_, complete));
}

bool Report::end() const {
  std::uint64_t wrong = 0;
  for (const RowResult& result : results_) wrong += wrong_of(result);
  std::printf("# Out of bounds values : %" PRIu64 " %s\n", wrong,
              options_.checks == 0 ? "(not checked)"
              : wrong == 0         ? "OK"
                                   : "FAILED");
  std::printf("# Avg bus bandwidth    : %.4g\n#\n", average_bus_bandwidth(results_, ranks_));
  std::printf("# Collective test concluded: %s\n", options_.collective.name);
  std::fflush(stdout);
  return write_json(true) && wrong == 0;
}

/// The file is written under another name first, so that a reader of the path sees all of it or nothing.
bool write_whole(const std::string& path, const std::string& text) {
  const std::string partial = path + ".part";
  std::FILE* file = std::fopen(partial.c_str(), "w");
  bool written = file != nullptr;
  if (written) {
    written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    written = std::fclose(file) == 0 && written;
  }
  if (written) written = std::rename(partial.c_str(), path.c_str()) == 0;
  if (!written) std::fprintf(stderr, "tutti-perf: cannot write %s: %s\n", path.c_str(), std::strerror(errno));
  return written;
}

void print_settings() {
  const char *name = nullptr, *value = nullptr, *initial = nullptr, *meaning = nullptr;
  const auto quoted = [](const char* text) { return text[0] == '\0' ? "\"\"" : text; };
  for (int i = 0; tuttiSettingInfo(i, &name, &value, &initial, &meaning) == tuttiSuccess; ++i) {
    std::printf("%-24s %s (default %s)\n    %s\n", name, quoted(value), quoted(initial), meaning);
  }
}

}  // namespace tutti::perf

#include "report_json.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace tutti::perf {
namespace {

using Json = nlohmann::ordered_json;

std::string processor_name(const utsname& system) {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return system.machine;
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

Json machine_json() {
  utsname system{};
  uname(&system);
  const auto memory =
      static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return {{"host", system.nodename},       {"processor", processor_name(system)},
          {"cores", usable_cores()},       {"memory_bytes", memory},
          {"system", system.sysname},      {"kernel", system.release},
          {"architecture", system.machine}};
}

Json config_json(const Options& options, int ranks, const char* ranks_are) {
  const char* averages[] = {"rank0", "mean", "min", "max"};
  Json config{{"ranks", ranks},
              {"ranks_are", ranks_are},
              {"min_bytes", options.min_bytes},
              {"max_bytes", options.max_bytes},
              {"warmup_iterations", options.warmups},
              {"check_iterations", options.checks},
              {"isolated_operations", options.isolated},
              {"cpu_time", options.cpu_time},
              {"average", averages[static_cast<int>(options.average)]}};
  if (options.wire != tuttiDataTypeMax) config["wire"] = type_of(options.wire).name;
  if (options.registered) config["registered"] = true;
  if (options.deterministic) config["deterministic"] = true;
  if (options.gpu.devices > 0) {
    config["gpus"] = options.gpu.devices;
    config["times_by"] = times_text(options);
    if (options.gpu.graph_calls > 0) config["cudagraph"] = options.gpu.graph_calls;
  }
  if (options.iterations > 0) config["iterations"] = options.iterations;
  if (options.step_bytes > 0) {
    config["step_bytes"] = options.step_bytes;
  } else {
    config["step_factor"] = options.step_factor;
  }
  return config;
}

Json direction_json(const Row& row, const Direction& direction, int ranks, bool cpu_time) {
  const Timing& timing = direction.timing;
  Json json;
  json[cpu_time ? "cpu_time_us" : "time_us"] = {
      {"min", timing.min * 1e6}, {"p50", timing.p50 * 1e6}, {"p99", timing.p99 * 1e6}, {"avg", timing.average * 1e6}};
  json["alg_bw"] = alg_bandwidth(row, timing.average);
  json["bus_bw"] = bus_bandwidth(row, timing.average, ranks);
  json["nwrong"] = direction.wrong ? Json(*direction.wrong) : Json(nullptr);
  if (direction.floor > 0) {
    json["floor_us"] = direction.floor * 1e6;
    json["floor_by_time"] = direction.floor / timing.average;
  }
  return json;
}

Json row_json(const RowResult& result, int ranks, bool cpu_time) {
  const Row& row = result.row;
  const bool barrier = row.collective.collective == Collective::kBarrier;
  Json json{{"collective", row.collective.name},
            {"transport", result.transport},
            {"algorithm", result.algorithm},
            {"ranks", ranks},
            {"size", row.bytes()},
            {"count", row.count},
            {"type", barrier ? "none" : row.type.name},
            {"redop", op_text(row)},
            {"root", row.collective.rooted ? row.root : -1}};
  json["out_of_place"] = direction_json(row, result.out_of_place, ranks, cpu_time);
  json["in_place"] = result.in_place ? direction_json(row, *result.in_place, ranks, cpu_time) : Json(nullptr);
  return json;
}

Json begin_json(const Options& options, int ranks, const char* ranks_are) {
  int version = 0;
  tuttiGetVersion(&version);
  Json report;
  report["version"] =
      std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." + std::to_string(version % 100);
  report["machine"] = machine_json();
  report["config"] = config_json(options, ranks, ranks_are);
  return report;
}

Json cell_json(const SweepRow& cell) {
  Json json{{"collective", cell.row.collective.name},
            {"transport", cell.transport},
            {"size", cell.row.bytes()},
            {"count", cell.row.count},
            {"element_bytes", cell.row.type.bytes},
            {"root", cell.row.root},
            {"chosen", cell.chosen},
            {"best", cell.names[cell.best()]},
            {"chosen_by_best", cell.ratio()},
            {"nwrong", cell.wrong}};
  for (std::size_t i = 0; i < cell.names.size(); ++i) json["time_us"][cell.names[i]] = cell.seconds[i] * 1e6;
  return json;
}

}  // namespace

const char* op_text(const Row& row) { return row.collective.reduces ? name_of(row.op) : "none"; }

double average_bus_bandwidth(const std::vector<RowResult>& results, int ranks) {
  double sum = 0;
  int directions = 0;
  const auto add = [&](const Row& row, const Direction& direction) {
    sum += bus_bandwidth(row, direction.timing.average, ranks);
    ++directions;
  };
  for (const RowResult& result : results) {
    add(result.row, result.out_of_place);
    if (result.in_place) add(result.row, *result.in_place);
  }
  return directions > 0 ? sum / directions : 0;
}

std::string times_text(const Options& options) {
  if (options.isolated) return "the host's clock around blocking calls";
  if (options.gpu.graph_calls == 0) return "CUDA events around calls on a stream";
  return "CUDA events around replays of a graph of " + std::to_string(options.gpu.graph_calls) + " calls";
}

std::string machine_text() {
  utsname system{};
  uname(&system);
  return std::string(system.nodename) + ": " + processor_name(system) + ", " + std::to_string(usable_cores()) +
         " cores, " + system.sysname + " " + system.release;
}

std::string json_text(const Options& options, int ranks, const char* ranks_are, const std::vector<SweepRow>& cells) {
  Json report = begin_json(options, ranks, ranks_are);
  report["sweep"] = Json::array();
  for (const SweepRow& cell : cells) report["sweep"].push_back(cell_json(cell));
  const SweepSummary summary = summary_of(cells);
  report["chosen_by_best"] = {{"median", summary.median}, {"p95", summary.p95}, {"worst", summary.worst}};
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string json_text(const Options& options, int ranks, const char* ranks_are, const std::vector<RowResult>& results,
                      const GpuFacts* gpus, bool complete) {
  Json report = begin_json(options, ranks, ranks_are);
  if (!complete) report["incomplete"] = true;
  for (std::size_t i = 0; gpus != nullptr && i < gpus->devices.size(); ++i) {
    const GpuFacts::Device& device = gpus->devices[i];
    report["devices"].push_back({{"device", i}, {"name", device.name}, {"copy_GB/s", device.copy_rate / 1e9}});
  }
  report["results"] = Json::array();
  for (const RowResult& result : results) report["results"].push_back(row_json(result, ranks, options.cpu_time));
  report["average_bus_bandwidth"] = average_bus_bandwidth(results, ranks);
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tutti::perf

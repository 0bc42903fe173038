#include "core/costs_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <type_traits>

#include "core/fingerprint.h"
#include "core/log.h"
#include "core/text_file.h"

namespace tutti {
namespace {

/// Calls visit(name, value) for each of them.
template <class C, class Visit>
void for_each_cost(C& costs, const Visit& visit) {
  const auto link = [&](const std::string& name, auto& of) {
    visit(name + ".latency", of.latency);
    visit(name + ".send_overhead", of.send_overhead);
    visit(name + ".recv_overhead", of.recv_overhead);
    visit(name + ".send_kib", of.send_kib);
    visit(name + ".recv_kib", of.recv_kib);
    visit(name + ".wire_kib", of.wire_kib);
    visit(name + ".long_overhead", of.long_overhead);
  };
  link("shm", costs.shm);
  link("tcp", costs.tcp);
  visit("network.latency", costs.network_latency);
  visit("network.wire_kib", costs.network_wire_kib);
  visit("call", costs.call);
  visit("step", costs.step);
  visit("reduce_kib", costs.reduce_kib);
  visit("copy_kib", costs.copy_kib);
  visit("handover", costs.handover);
  visit("memory_kib", costs.memory_kib);
  visit("cache_bytes", costs.cache_bytes);
  visit("cores", costs.cores);
}

constexpr std::uintmax_t kLargestFile = 65536;

bool set_cost(Costs* costs, const std::string& name, std::int64_t number) {
  bool known = false;
  for_each_cost(*costs, [&](const std::string& other, auto& value) {
    if (other != name) return;
    value = static_cast<std::remove_reference_t<decltype(value)>>(number);
    known = true;
  });
  return known;
}

std::string processor_name() {
  const std::optional<std::string> text = read_text_file("/proc/cpuinfo", kLargestFile);
  std::istringstream lines(text ? *text : std::string());
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

/// A rank that a launcher has bound to one core does not speak for its machine.
int machine_cores() {
  const int usable = usable_cores();
  return usable > 1 ? usable : std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
}

/// `instead`: what is used if the file cannot be read.
void read_if_there(const std::string& path, const char* instead, Costs* costs) {
  std::error_code error;
  if (path.empty() || !std::filesystem::exists(path, error)) return;
  if (const Status read = read_costs(path, costs); !read.ok())
    log(LogLevel::kWarn, {}, "{} used: {}", instead, read.text());
}

/// Picoseconds that a KiB takes at 1 Mbit/s.
constexpr Time kKibAtAMegabit = 8'192'000'000;

}  // namespace

Status parse_costs(const std::string& text, const std::string& origin, Costs* costs) {
  Costs read = *costs;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name;
    std::string rest;
    std::int64_t value = 0;
    if (!(words >> name)) continue;
    if (!(words >> value) || value < 0 || value > kLargestCost || words >> rest)
      return fail(Code::kInvalidArgument, "{}:{}: '{}' is no name and a whole number of at most {}", origin, number,
                  line, kLargestCost);
    if (!set_cost(&read, name, value))
      return fail(Code::kInvalidArgument, "{}:{}: there is no cost '{}'", origin, number, name);
  }
  if (read.cores < 1) return fail(Code::kInvalidArgument, "{}: cores must be at least 1", origin);
  *costs = read;
  return {};
}

Status read_costs(const std::string& path, Costs* costs) {
  std::error_code error;  // a pipe would be waited for
  if (!std::filesystem::is_regular_file(path, error) || std::filesystem::file_size(path, error) > kLargestFile)
    return fail(Code::kInvalidArgument, "{} cannot be read: there is no file of at most 64 KiB", path);
  const std::optional<std::string> text = read_text_file(path, kLargestFile);
  return text ? parse_costs(*text, path, costs) : fail(Code::kInvalidArgument, "{} cannot be read", path);
}

std::string costs_text(const Costs& costs) {
  std::string text;
  for_each_cost(costs,
                [&](const std::string& name, const auto& value) { text += fmt::format("{} {}\n", name, value); });
  return text;
}

std::string machine_description() {
  const auto gibibytes =
      static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) >> 30;
  return fmt::format("{}, {} cores, {} GiB", processor_name(), machine_cores(), gibibytes);
}

std::string costs_cache_path() {
  const std::string folder = cache_folder();
  if (folder.empty()) return {};
  std::uint64_t hash = 0;
  for (const char letter : machine_description()) hash = mix64(hash + static_cast<unsigned char>(letter));
  return fmt::format("{}/tutti/costs-{:016x}", folder, hash);
}

std::string network_costs_path(const LocalNetwork& network) {
  const std::string folder = cache_folder();
  return folder.empty() || network.name.empty() ? "" : folder + "/tutti/network-" + network.name;
}

Status costs_in_force(const Settings& settings, const LocalNetwork& network, Costs* costs) {
  *costs = Costs{};
  costs->cores = machine_cores();
  if (settings.costs == "builtin") return {};
  if (settings.costs != "auto") return read_costs(settings.costs, costs);
  read_if_there(costs_cache_path(), "the built-in costs are", costs);
  if (network.megabits > 0) {
    costs->network_wire_kib = std::min(kKibAtAMegabit / network.megabits, kLargestCost);
    costs->network_latency = kUsualNetworkLatency;
  }
  read_if_there(network_costs_path(network), "what else is known of the network is", costs);
  return {};
}

}  // namespace tutti

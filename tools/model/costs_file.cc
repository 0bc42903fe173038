#include "model/costs_file.h"

#include <fmt/format.h>

#include <fstream>
#include <functional>
#include <limits>
#include <sstream>

namespace tutti::model {
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
  visit("call", costs.call);
  visit("step", costs.step);
  visit("reduce_kib", costs.reduce_kib);
  visit("copy_kib", costs.copy_kib);
  visit("handover", costs.handover);
  visit("memory_kib", costs.memory_kib);
  visit("cache_bytes", costs.cache_bytes);
  visit("cores", costs.cores);
}

bool set_cost(Costs* costs, const std::string& name, std::int64_t number) {
  bool known = false;
  for_each_cost(*costs, [&](const std::string& other, auto& value) {
    if (other != name) return;
    value = static_cast<std::remove_reference_t<decltype(value)>>(number);
    known = true;
  });
  return known;
}

}  // namespace

Status read_costs(const std::string& path, Costs* costs) {
  std::ifstream file(path);
  if (!file) return fail(Code::kInvalidArgument, "{} cannot be read", path);
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name;
    std::int64_t value = 0;
    if (!(words >> name)) continue;
    std::string rest;
    if (!(words >> value) || value < 0 || value > std::numeric_limits<std::int32_t>::max() || words >> rest)
      return fail(Code::kInvalidArgument, "{}:{}: '{}' is no name and a whole number", path, number, line);
    if (!set_cost(costs, name, value))
      return fail(Code::kInvalidArgument, "{}:{}: there is no cost '{}'", path, number, name);
  }
  if (costs->cores < 1) return fail(Code::kInvalidArgument, "{}: cores must be at least 1", path);
  return {};
}

std::string costs_text(const Costs& costs) {
  std::string text;
  for_each_cost(costs,
                [&](const std::string& name, const auto& value) { text += fmt::format("{} {}\n", name, value); });
  return text;
}

}  // namespace tutti::model

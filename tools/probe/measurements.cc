#include "probe/measurements.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "collectives/choice/catalogue.h"
#include "collectives/choice/choice.h"

namespace tutti::probe {
namespace {

using Json = nlohmann::json;

/// More ranks take long to simulate, and for them thresholds choose anyway.
constexpr int kMostRanks = 64;

Collective collective_named(const std::string& name) {
  for (int i = 1; i < kCollectives; ++i)
    if (name == name_of(static_cast<Collective>(i))) return static_cast<Collective>(i);
  return Collective::kNone;
}

Cell cell_of(const Json& json, int ranks) {
  Cell cell;
  cell.collective = collective_named(json.at("collective").get<std::string>());
  const double bytes = json.at("count").get<double>() * json.at("element_bytes").get<double>();
  cell.root = json.at("root").get<int>();
  if (!(bytes >= 0 && bytes <= 1e15) || ranks < 1 || ranks > kMostRanks || cell.root < 0 || cell.root >= ranks)
    throw Json::other_error::create(501, "a cell that cannot be", &json);
  cell.block = Bytes{static_cast<std::size_t>(bytes)};
  cell.ranks = ranks;
  cell.tcp = json.at("transport").get<std::string>() == "tcp";
  cell.chosen = json.at("chosen").get<std::string>();
  for (const auto& [name, us] : json.at("time_us").items()) {
    const Algorithm* const algorithm = find_algorithm(cell.collective, name);
    // On one host a hierarchical one is never chosen.
    if (algorithm != nullptr && !algorithm->hierarchical && us.get<double>() > 0)
      cell.times.push_back({algorithm, us.get<double>()});
  }
  std::ranges::sort(cell.times, {}, &Cell::Time::algorithm);  // brings them into the order of the catalogue
  return cell;
}

}  // namespace

double Cell::best() const {
  return std::min_element(times.begin(), times.end(), [](const Time& a, const Time& b) { return a.us < b.us; })->us;
}

Status read_sweep(const std::string& path, std::vector<Cell>* cells) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    return fail(Code::kInvalidArgument, "{} is not a sweep's JSON file", path);
  std::ifstream file(path);
  const Json json = Json::parse(file, nullptr, false);
  if (json.is_discarded()) return fail(Code::kInvalidArgument, "{} is not a sweep's JSON file", path);
  try {
    const int ranks = json.at("config").at("ranks").get<int>();
    for (const Json& one : json.at("sweep")) {
      Cell cell = cell_of(one, ranks);
      if (scheduled_as(cell.collective) == cell.collective && ranks > 1 && !cell.times.empty())
        cells->push_back(std::move(cell));
    }
  } catch (const Json::exception& error) {
    return fail(Code::kInvalidArgument, "{} is not a sweep's JSON file: {}", path, error.what());
  }
  return {};
}

}  // namespace tutti::probe

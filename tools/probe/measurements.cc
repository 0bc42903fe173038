#include "probe/measurements.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "collectives/catalogue.h"
#include "collectives/choice.h"

namespace tutti::probe {
namespace {

using Json = nlohmann::json;

Collective collective_named(const std::string& name) {
  for (int i = 1; i < kCollectives; ++i)
    if (name == name_of(static_cast<Collective>(i))) return static_cast<Collective>(i);
  return Collective::kNone;
}

Cell cell_of(const Json& json, int ranks) {
  Cell cell;
  cell.collective = collective_named(json.at("collective").get<std::string>());
  cell.block = Bytes{json.at("count").get<std::size_t>() * json.at("element_bytes").get<std::size_t>()};
  cell.root = json.at("root").get<int>();
  cell.ranks = ranks;
  cell.tcp = json.at("transport").get<std::string>() == "tcp";
  cell.chosen = json.at("chosen").get<std::string>();
  for (const auto& [name, us] : json.at("time_us").items()) {
    const Algorithm* const algorithm = find_algorithm(cell.collective, name);
    if (name.starts_with("hierarchical")) continue;  // on one host the same as a flat one, and never chosen
    if (algorithm != nullptr && us.get<double>() > 0) cell.times.push_back({algorithm, us.get<double>()});
  }
  std::ranges::sort(cell.times, {}, &Cell::Time::algorithm);  // the order of the catalogue
  return cell;
}

}  // namespace

double Cell::best() const {
  return std::min_element(times.begin(), times.end(), [](const Time& a, const Time& b) { return a.us < b.us; })->us;
}

Status read_sweep(const std::string& path, std::vector<Cell>* cells) {
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

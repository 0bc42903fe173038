#include "tally.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace tutti::race {
namespace {

template <class Value>
double quantile(const std::vector<Pair>& pairs, double fraction, Value value) {
  std::vector<double> values;
  for (const Pair& pair : pairs) values.push_back(value(pair));
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(fraction * static_cast<double>(values.size() - 1) + 0.5)];
}

}  // namespace

Medians medians_of(const std::vector<Pair>& pairs) {
  if (pairs.empty()) return {};
  const auto ratio = [](const Pair& pair) { return pair.tutti / pair.other; };
  return {pairs.size(),
          quantile(pairs, 0.5, [](const Pair& pair) { return pair.tutti * 1e6; }),
          quantile(pairs, 0.5, [](const Pair& pair) { return pair.other * 1e6; }),
          quantile(pairs, 0.5, ratio),
          quantile(pairs, 0.25, ratio),
          quantile(pairs, 0.75, ratio)};
}

const std::vector<Pair>& Tally::pairs(std::size_t bytes, State state) const {
  static const std::vector<Pair> none;
  const auto states = pairs_.find(bytes);
  if (states == pairs_.end()) return none;
  const auto found = states->second.find(state);
  return found == states->second.end() ? none : found->second;
}

std::size_t Tally::wrong(std::size_t bytes) const {
  const auto found = wrong_.find(bytes);
  return found == wrong_.end() ? 0 : found->second;
}

std::size_t Tally::wrong() const {
  std::size_t sum = 0;
  for (const auto& [bytes, wrong] : wrong_) sum += wrong;
  return sum;
}

void Tally::print(const Setup& setup) const {
  std::printf("# %s, float32 sum, %d ranks, %s; other: %s\n", setup.collective.c_str(), setup.ranks,
              setup.in_place ? "in place" : "out of place", setup.other.c_str());
  std::printf(
      "# near: a cache line takes less than %.0f ns one way. Times in us, medians; ratio: median of paired ratios.\n",
      kNearBelow);
  std::printf("# Left out: pairs in which the state changed or something else ran on the cores.\n");
  std::printf("# %10s |%6s %10s %10s %6s |%6s %10s %10s %6s |%9s | %s\n", "bytes", "near", "tutti", "other", "ratio",
              "far", "tutti", "other", "ratio", "left out", "#wrong");
  for (const auto& [bytes, states] : pairs_) {
    std::printf("%12zu", bytes);
    for (const State state : {State::kNear, State::kFar}) {
      const Medians medians = medians_of(pairs(bytes, state));
      if (medians.pairs == 0) {
        std::printf(" |%6d %10s %10s %6s", 0, "-", "-", "-");
      } else {
        std::printf(" |%6zu %10.3f %10.3f %6.2f", medians.pairs, medians.tutti_us, medians.other_us, medians.ratio);
      }
    }
    const std::size_t left_out = pairs(bytes, State::kMixed).size() + pairs(bytes, State::kDisturbed).size();
    std::printf(" |%9zu | %zu\n", left_out, wrong(bytes));
  }
}

std::string Tally::json(const Setup& setup) const {
  nlohmann::ordered_json report{{"collective", setup.collective},
                                {"type", "float"},
                                {"redop", "sum"},
                                {"ranks", setup.ranks},
                                {"in_place", setup.in_place},
                                {"isolated", setup.isolated},
                                {"transport", setup.transport},
                                {"other", setup.other},
                                {"near_below_ns", kNearBelow},
                                {"wrong", wrong()}};
  report["results"] = nlohmann::ordered_json::array();
  for (const auto& [bytes, states] : pairs_) {
    for (const State state : kStates) {
      const auto found = states.find(state);
      if (found == states.end()) continue;
      const Medians medians = medians_of(found->second);
      report["results"].push_back({{"size", bytes},
                                   {"state", kStateNames[static_cast<int>(state)]},
                                   {"pairs", medians.pairs},
                                   {"tutti_us", medians.tutti_us},
                                   {"other_us", medians.other_us},
                                   {"ratio", medians.ratio},
                                   {"ratio_quartiles", {medians.ratio_low, medians.ratio_high}}});
    }
  }
  return report.dump(2) + "\n";
}

}  // namespace tutti::race

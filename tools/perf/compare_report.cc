#include "compare_report.h"

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "report.h"
#include "report_json.h"

namespace tutti::perf {
namespace {

using Json = nlohmann::ordered_json;
using race::State;

constexpr State kKept[] = {State::kNear, State::kFar};

/// The medians over all pairs of a size in a state, whoever was the peer.
race::Medians tutti_medians(const Comparison& comparison, std::size_t bytes, State state) {
  std::vector<race::Pair> all;
  for (const ComparedPeer& peer : comparison.peers) {
    const auto& pairs = peer.tally.pairs(bytes, state);
    all.insert(all.end(), pairs.begin(), pairs.end());
  }
  return race::medians_of(all);
}

std::size_t left_out(const ComparedPeer& peer, std::size_t bytes) {
  return peer.tally.pairs(bytes, State::kMixed).size() + peer.tally.pairs(bytes, State::kDisturbed).size();
}

std::size_t wrong_of(const Comparison& comparison, std::size_t bytes) {
  std::size_t wrong = comparison.wrong.at(bytes);
  for (const ComparedPeer& peer : comparison.peers) wrong += peer.tally.wrong(bytes);
  return wrong;
}

void print_head(const Comparison& comparison) {
  std::printf("# tutti-perf --compare: %s, float sum, out of place, %d ranks, %s\n", comparison.options.collective.name,
              comparison.ranks, comparison.pinned ? "a core each" : "sharing cores");
  std::printf("# %s\n# %s", machine_text().c_str(), comparison.tutti.c_str());
  for (const ComparedPeer& peer : comparison.peers) std::printf(", %s: %s", peer.name.c_str(), peer.product.c_str());
  std::printf("\n");
  for (const std::string& reason : comparison.left_out) std::printf("# not compared: %s\n", reason.c_str());
  std::printf("# size: %s\n", comparison.options.collective.size_is);
  std::printf("# near: a cache line takes less than %.0f ns from core to core; far: more. Times in us, medians.\n",
              race::kNearBelow);
  std::printf(
      "# x: Tutti's time over the peer's, median of the ratios of pairs; out: pairs left out because the cores\n"
      "# moved or other programs ran. #wrong: elements, of all.\n");
  std::printf("# %10s %10s %5s %9s", "size", "count", "state", "tutti");
  for (const ComparedPeer& peer : comparison.peers)
    std::printf(" |%10s %5s %5s %4s", peer.name.c_str(), "x", "pairs", "out");
  std::printf(" | #wrong\n");
}

void print_row(const Comparison& comparison, const Row& row, State state, bool is_first) {
  const race::Medians tutti = tutti_medians(comparison, row.bytes(), state);
  if (tutti.pairs == 0) return;
  std::printf("%12zu %10zu %5s %9s", row.bytes(), row.count, race::kStateNames[static_cast<int>(state)],
              time_text(tutti.tutti_us * 1e-6).c_str());
  for (const ComparedPeer& peer : comparison.peers) {
    const race::Medians medians = race::medians_of(peer.tally.pairs(row.bytes(), state));
    if (medians.pairs == 0) {
      std::printf(" |%10s %5s %5d", "-", "-", 0);
    } else {
      std::printf(" |%10s %5.*f %5zu", time_text(medians.other_us * 1e-6).c_str(), medians.ratio < 0.0995 ? 3 : 2,
                  medians.ratio, medians.pairs);
    }
    std::printf(" %4s", is_first ? std::to_string(left_out(peer, row.bytes())).c_str() : "");
  }
  std::printf(" | %s\n", is_first ? std::to_string(wrong_of(comparison, row.bytes())).c_str() : "");
}

/// Four digits are more than any of these times deserves, and keep files small.
double rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return std::strtod(text, nullptr);
}

Json peer_json(const ComparedPeer& peer, const Row& row, State state, int ranks) {
  const race::Medians medians = race::medians_of(peer.tally.pairs(row.bytes(), state));
  return {{"pairs", medians.pairs},
          {"time_us", rounded(medians.other_us)},
          {"bus_bw", rounded(bus_bandwidth(row, medians.other_us * 1e-6, ranks))},
          {"ratio", rounded(medians.ratio)},
          {"ratio_quartiles", {rounded(medians.ratio_low), rounded(medians.ratio_high)}}};
}

Json row_json(const Comparison& comparison, const Row& row, State state) {
  const race::Medians tutti = tutti_medians(comparison, row.bytes(), state);
  Json json{{"size", row.bytes()},
            {"count", row.count},
            {"state", race::kStateNames[static_cast<int>(state)]},
            {"time_us", rounded(tutti.tutti_us)},
            {"bus_bw", rounded(bus_bandwidth(row, tutti.tutti_us * 1e-6, comparison.ranks))},
            {"pairs", tutti.pairs}};
  for (const ComparedPeer& peer : comparison.peers) {
    if (!peer.tally.pairs(row.bytes(), state).empty())
      json["peers"][peer.name] = peer_json(peer, row, state, comparison.ranks);
  }
  return json;
}

std::string comparison_json(const Comparison& comparison) {
  Json report{{"comparison", comparison.options.collective.name},
              {"type", "float"},
              {"redop", "sum"},
              {"in_place", false},
              {"ranks", comparison.ranks},
              {"pinned", comparison.pinned},
              {"machine", machine_text()},
              {"near_below_ns", race::kNearBelow},
              {"tutti", comparison.tutti}};
  for (const ComparedPeer& peer : comparison.peers) report["peers"][peer.name] = peer.product;
  report["not_compared"] = comparison.left_out;
  report["nwrong"] = comparison.all_wrong();
  report["results"] = Json::array();
  for (const Row& row : comparison.rows) {
    for (const State state : kKept) {
      if (tutti_medians(comparison, row.bytes(), state).pairs > 0)
        report["results"].push_back(row_json(comparison, row, state));
    }
  }
  report["checks"] = Json::array();
  for (const Row& row : comparison.rows) {
    Json check{{"size", row.bytes()}, {"nwrong", {{"tutti", comparison.wrong.at(row.bytes())}}}};
    for (const ComparedPeer& peer : comparison.peers) {
      check["nwrong"][peer.name] = peer.tally.wrong(row.bytes());
      check["pairs_left_out"][peer.name] = left_out(peer, row.bytes());
      check["of_them_disturbed"][peer.name] = peer.tally.pairs(row.bytes(), State::kDisturbed).size();
    }
    report["checks"].push_back(check);
  }
  return report.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

void print_comparison(const Comparison& comparison) {
  print_head(comparison);
  for (const Row& row : comparison.rows) {
    bool is_first = true;
    for (const State state : kKept) {
      if (tutti_medians(comparison, row.bytes(), state).pairs == 0) continue;
      print_row(comparison, row, state, is_first);
      is_first = false;
    }
    if (is_first) std::printf("%12zu %10zu every pair was disturbed\n", row.bytes(), row.count);
  }
}

bool write_comparison(const Comparison& comparison) {
  return write_whole(comparison.options.json_path, comparison_json(comparison));
}

}  // namespace tutti::perf

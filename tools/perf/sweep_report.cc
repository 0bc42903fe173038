#include "sweep_report.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>

#include "report.h"
#include "report_json.h"

namespace tutti::perf {

SweepSummary summary_of(const std::vector<SweepRow>& rows) {
  SweepSummary summary;
  if (rows.empty()) return summary;
  std::vector<double> ratios;
  for (const SweepRow& row : rows) ratios.push_back(row.ratio());
  summary.worst_row = static_cast<std::size_t>(std::max_element(ratios.begin(), ratios.end()) - ratios.begin());
  std::sort(ratios.begin(), ratios.end());
  const auto at = [&](double share) {
    return ratios[static_cast<std::size_t>(std::ceil(share * static_cast<double>(ratios.size()))) - 1];
  };
  summary.median = at(0.5);
  summary.p95 = at(0.95);
  summary.worst = ratios.back();
  return summary;
}

void begin_sweep(const Options& options, int ranks, const char* ranks_are) {
  int version = 0;
  tuttiGetVersion(&version);
  std::printf("# tutti-perf --sweep, tutti %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
  std::printf("# %s, ranks %d (%s), %s\n", options.every_collective ? "all collectives" : options.collective.name,
              ranks, ranks_are, options.collective.reduces ? name_of(options.ops[0]) : "no operation");
  std::printf("# %s\n", machine_text().c_str());
  std::printf("# by best: median ratio of the chosen one's time to that of the best, taken in turns\n#\n");
  std::printf("# %-12s  %10s  %-20s  %7s  %-20s  %7s  %7s  %6s  others (us)\n", "collective", "size (B)", "chosen",
              "us", "best", "us", "by best", "#wrong");
  std::fflush(stdout);
}

void print_cell(const SweepRow& cell) {
  const auto own = std::find(cell.names.begin(), cell.names.end(), cell.chosen) - cell.names.begin();
  const std::size_t best = cell.best();
  std::printf("  %-12s  %10zu  %-20s  %7s  %-20s  %7s  %7.2f  %6" PRIu64 " ", cell.row.collective.name,
              cell.row.bytes(), cell.chosen.c_str(), time_text(cell.seconds[static_cast<std::size_t>(own)]).c_str(),
              cell.names[best].c_str(), time_text(cell.seconds[best]).c_str(), cell.ratio(), cell.wrong);
  for (std::size_t i = 0; i < cell.names.size(); ++i) {
    if (i == best || cell.names[i] == cell.chosen) continue;
    std::printf(" %s %s", cell.names[i].c_str(), time_text(cell.seconds[i]).c_str());
  }
  std::printf("\n");
  std::fflush(stdout);
}

bool end_sweep(const Options& options, int ranks, const char* ranks_are, const std::vector<SweepRow>& cells) {
  const SweepSummary summary = summary_of(cells);
  std::uint64_t wrong = 0;
  for (const SweepRow& cell : cells) wrong += cell.wrong;
  std::printf("# Out of bounds values : %" PRIu64 " %s\n", wrong,
              options.checks == 0 ? "(not checked)"
              : wrong == 0        ? "OK"
                                  : "FAILED");
  const Row& worst = cells[summary.worst_row].row;
  std::printf("# The choice by the best of %zu cells: median %.2f, 95 %% within %.2f, worst %.2f (%s, %sB)\n",
              cells.size(), summary.median, summary.p95, summary.worst, worst.collective.name,
              size_text(worst.bytes()).c_str());
  std::fflush(stdout);
  return options.json_path.empty() || write_whole(options.json_path, json_text(options, ranks, ranks_are, cells));
}

}  // namespace tutti::perf

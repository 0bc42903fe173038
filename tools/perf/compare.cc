#include "compare.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>

#include "compare_report.h"
#include "core_ping.h"
#include "peers.h"
#include "ranks.h"
#include "troupe.h"

namespace tutti::perf {
namespace {

constexpr double kWaitSeconds = 60;
constexpr double kEver = 1e8;
constexpr double kMostIterations = 1e6;
constexpr int kTrial = 3;  // so many operations are timed to find how many make a block

race::Contested contested_of(const CollectiveName& collective) {
  int found = 0;
  while (found < race::kContestedCount && std::strcmp(race::kContestedNames[found], collective.name) != 0) ++found;
  return static_cast<race::Contested>(found);
}

struct Contender {
  std::unique_ptr<Troupe> troupe;
  std::map<std::size_t, int> iterations;  ///< how many make a block, by Row::bytes()
};

class Comparing {
 public:
  Comparing(const Options& options, int ranks, const std::vector<Row>& rows)
      : what_(contested_of(options.collective)), comparison_{options, ranks, ranks <= default_ranks(), rows, {}, {},
                                                             {},      {}} {}

  /// Returns false if it failed; text() says why.
  bool run() {
    if (!prepare() || !start()) return false;
    ping_ = std::make_unique<CorePing>();  // only now, because it binds this thread, which children would inherit
    const Compare& how = comparison_.options.compare;
    for (int round = 0; round < how.rounds; ++round) {
      for (const Row& row : comparison_.rows) {
        show(round, row);
        if (round == 0 && !rehearse(row)) return false;
        if (!measure(row)) return false;
      }
    }
    return leave();
  }
  const Comparison& comparison() const { return comparison_; }
  const std::string& text() const { return text_; }

 private:
  bool prepare() {
    if (!stage_.make()) return text_ = std::string("no shared memory: ") + std::strerror(errno), false;
    stage_->ranks = comparison_.ranks;
    stage_->pinned = comparison_.pinned;
    for (const Row& row : comparison_.rows) {
      stage_->most_sent = std::max<std::uint64_t>(stage_->most_sent, row.send_count);
      // The floor's output may be as large as its input.
      stage_->most_received = std::max<std::uint64_t>(stage_->most_received, std::max(row.send_count, row.recv_count));
    }
    return true;
  }

  bool start() {
    const Compare& how = comparison_.options.compare;
    const std::string folder = contestants_folder(how.folder);
    if (!add(tutti_peer(), folder)) return false;
    comparison_.tutti = contenders_[0].troupe->library();
    for (const std::string& name : how.peers) {
      const Peer& peer = *find_peer(name);
      if (!add(peer, folder)) return false;
    }
    if (!comparison_.peers.empty()) return true;
    text_ = "there is nobody to compare with";
    for (const std::string& reason : comparison_.left_out) text_ += "; " + reason;
    return false;
  }

  /// Adds a peer, or leaves it out if it is not installed. Returns false if it could not be started.
  bool add(const Peer& peer, const std::string& folder) {
    std::string missing;
    const auto command = command_of(peer, folder, comparison_.ranks, !comparison_.pinned, &missing);
    if (command.empty()) return leave_out(peer, missing);
    const double seconds = comparison_.options.timeout_seconds;
    const std::chrono::duration<double> wait(seconds < 0 ? kWaitSeconds : seconds > 0 ? seconds : kEver);
    auto troupe = std::make_unique<Troupe>(peer.name, &stage_, groups_++,
                                           std::chrono::duration_cast<std::chrono::milliseconds>(wait));
    if (!troupe->start(command, !peer.launchers.empty(), &text_)) return false;
    if (!troupe->offers(what_)) {
      leave_out(peer, troupe->library() + " has no " + comparison_.options.collective.name);
      return troupe->leave(&text_);
    }
    if (&peer != &tutti_peer()) comparison_.peers.push_back({peer.name, troupe->library(), {}});
    contenders_.push_back({std::move(troupe), {}});
    return true;
  }

  bool leave_out(const Peer& peer, const std::string& reason) {
    if (&peer == &tutti_peer()) return text_ = reason, false;
    comparison_.left_out.push_back(std::string(peer.name) + ": " + reason);
    return true;
  }

  std::string meaning(const Row& row) const {
    const std::string name = row.collective.name;
    return "in the middle of " + name + (row.bytes() > 0 ? " of " + std::to_string(row.bytes()) + " bytes" : "");
  }

  bool give(Contender* contender, const Row& row, peers::Task task, int iterations, Figures* figures) {
    const int root = task == peers::Task::kCheck ? comparison_.ranks - 1 : 0;
    return contender->troupe->give({task, what_, row.count, root, iterations}, meaning(row), figures, &text_);
  }

  /// Checks the results, and finds how many operations make a block, in which each root has equally many.
  bool rehearse(const Row& row) {
    const int turns = row.collective.rooted ? comparison_.ranks : 1;
    for (std::size_t i = 0; i < contenders_.size(); ++i) {
      Figures figures;
      if (!give(&contenders_[i], row, peers::Task::kCheck, 0, &figures)) return false;
      const Peer* const peer = i > 0 ? find_peer(comparison_.peers[i - 1].name) : nullptr;
      const std::size_t wrong = peer != nullptr && peer->is_yardstick ? 0 : figures.wrong;
      if (i == 0) comparison_.wrong[row.bytes()] = wrong;
      if (i > 0) comparison_.peers[i - 1].tally.add_wrong(row.bytes(), wrong);
      if (!give(&contenders_[i], row, peers::Task::kTime, kTrial, &figures)) return false;
      const double fit = comparison_.options.compare.block_ms * 1e-3 / std::max(figures.seconds, 1e-9);
      const int iterations = std::max(1, static_cast<int>(std::min(kMostIterations, fit)));
      contenders_[i].iterations[row.bytes()] = (iterations + turns - 1) / turns * turns;
    }
    return true;
  }

  bool block(Contender* contender, const Row& row, Figures* figures) {
    return give(contender, row, peers::Task::kTime, contender->iterations[row.bytes()], figures);
  }

  bool measure(const Row& row) {
    for (int i = 0; i < comparison_.options.compare.pairs; ++i) {
      for (std::size_t peer = 0; peer < comparison_.peers.size(); ++peer) {
        Contender* order[] = {&contenders_[0], &contenders_[peer + 1]};
        const bool ours_first = turn_++ % 2 == 0;
        if (!ours_first) std::swap(order[0], order[1]);
        Figures figures[2];
        const double before = ping_->one_way_ns();
        if (!block(order[0], row, &figures[0])) return false;
        const double between = ping_->one_way_ns();
        if (!block(order[1], row, &figures[1])) return false;
        const double after = ping_->one_way_ns();
        const bool disturbed = figures[0].disturbed || figures[1].disturbed;
        if (!ours_first) std::swap(figures[0], figures[1]);
        comparison_.peers[peer].tally.add(row.bytes(),
                                          disturbed ? race::State::kDisturbed : race::state_of(before, between, after),
                                          {figures[0].seconds, figures[1].seconds});
      }
      ++turn_;  // with an even number of peers each would always be first or second
    }
    return true;
  }

  bool leave() {
    ping_.reset();
    if (isatty(STDERR_FILENO) != 0) std::fputs("\r\033[K", stderr);
    for (Contender& contender : contenders_) {
      if (!contender.troupe->leave(&text_)) return false;
    }
    return true;
  }

  void show(int round, const Row& row) const {
    if (isatty(STDERR_FILENO) == 0) return;
    std::fprintf(stderr, "\r\033[Kround %d of %d, %zu bytes", round + 1, comparison_.options.compare.rounds,
                 row.bytes());
  }

  const race::Contested what_;
  Comparison comparison_;
  peers::OwnStage stage_;
  std::vector<Contender> contenders_;  ///< Tutti, then the peers in their order
  std::unique_ptr<CorePing> ping_;
  int groups_ = 0;  ///< how many groups of the stage were used; one that leaves is not used again
  unsigned turn_ = 0;
  std::string text_;
};

}  // namespace

std::size_t Comparison::all_wrong() const {
  std::size_t sum = 0;
  for (const auto& [bytes, count] : wrong) sum += count;
  for (const ComparedPeer& peer : peers) sum += peer.tally.wrong();
  return sum;
}

int compare(const Options& options, int ranks, const std::vector<Row>& rows) {
  Comparing comparing(options, ranks, rows);
  if (!comparing.run()) {
    std::fprintf(stderr, "tutti-perf: %s\n", comparing.text().c_str());
    return kFailed;
  }
  const Comparison& comparison = comparing.comparison();
  print_comparison(comparison);
  if (!options.json_path.empty() && !write_comparison(comparison)) return kFailed;
  return comparison.all_wrong() == 0 ? 0 : kFailed;
}

}  // namespace tutti::perf

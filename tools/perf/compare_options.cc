#include "compare_options.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "peers.h"

namespace tutti::perf {
namespace {

std::string peer_names() {
  std::string text;
  for (const Peer& peer : peer_table()) text += (text.empty() ? "" : " ") + std::string(peer.name);
  return text;
}

void set_peers(const std::string& text, std::vector<std::string>* chosen) {
  std::vector<std::string>& names = *chosen;
  std::istringstream words(text == "all" ? "" : text + ",");
  for (std::string word; std::getline(words, word, ',');) {
    if (find_peer(word) == nullptr) {
      throw CLI::ValidationError("--compare", "'" + word + "' is no peer; one of: " + peer_names() + " all");
    }
    if (std::find(names.begin(), names.end(), word) == names.end()) names.push_back(word);
  }
  for (const Peer& peer : peer_table()) {
    if (text == "all") names.push_back(peer.name);
  }
}

void check_compare(const CLI::App& app, const Options& options) {
  for (const char* const more : {"--rounds", "--pairs", "--block-ms"}) {
    if (options.compare.peers.empty() && app.count(more) > 0) throw CLI::ValidationError(more, "belongs to --compare");
  }
  if (options.compare.peers.empty()) return;
  for (const char* const other : {"-d", "-o", "-n", "-w", "-c", "-r", "-z", "-R", "-C", "-a", "--threads", "--wire",
                                  "--deterministic", "--transport", "--sweep", "--overlap"}) {
    if (app.count(other) > 0) {
      throw CLI::ValidationError(
          "--compare", std::string("excludes ") + other + " (float sums, processes, shared memory, roots in turn)");
    }
  }
  const Collective collective = options.collective.collective;
  if (collective == Collective::kAllGatherV || collective == Collective::kAllToAllV ||
      collective == Collective::kSendRecv) {
    throw CLI::ValidationError("--compare", std::string(options.collective.name) + " is not compared");
  }
  if (options.min_bytes == 0 && collective != Collective::kBarrier) {
    throw CLI::ValidationError("--compare", "-b must be above 0");
  }
}

}  // namespace

void declare_compare(CLI::App* app, std::string* text, Compare* compare) {
  app->add_option("--compare", *text,
                  "against other libraries, paired, in processes of their own; comma list or all: " + peer_names() +
                      " (floor: the memory alone; handover: each core handed to all of its ranks twice; sockets: as "
                      "many bytes over loopback; sockets_all_reduce: an all_reduce by plain sockets)");
  app->add_option("--rounds", compare->rounds, "with --compare: sweeps over all sizes (default 4)")
      ->check(CLI::Range(1, 100000));
  app->add_option("--pairs", compare->pairs, "with --compare: pairs of a size and peer in a round (default 4)")
      ->check(CLI::Range(1, 100000));
  app->add_option("--block-ms", compare->block_ms, "with --compare: length of a block (default 4)")
      ->check(CLI::Range(0.0, 1e5));
  app->add_option("--contestants", compare->folder)->group("");
}

void set_compare(const CLI::App& app, const std::string& text, Options* options) {
  if (app.count("--compare") > 0) set_peers(text, &options->compare.peers);
  check_compare(app, *options);
}

}  // namespace tutti::perf

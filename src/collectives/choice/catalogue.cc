#include "collectives/choice/catalogue.h"

#include "collectives/all_pairs.h"
#include "collectives/bruck.h"
#include "collectives/chain.h"
#include "collectives/dissemination.h"
#include "collectives/double_tree.h"
#include "collectives/halving_doubling.h"
#include "collectives/hierarchical/hierarchical_all_to_all.h"
#include "collectives/hierarchical/hierarchical_blocks.h"
#include "collectives/hierarchical/hierarchical_broadcast.h"
#include "collectives/hierarchical/hierarchical_double_tree.h"
#include "collectives/hierarchical/hierarchical_gather.h"
#include "collectives/hierarchical/hierarchical_knomial.h"
#include "collectives/hierarchical/hierarchical_leaders.h"
#include "collectives/hierarchical/hierarchical_reduce.h"
#include "collectives/hierarchical/hierarchical_ring.h"
#include "collectives/hierarchical/hierarchical_rounds.h"
#include "collectives/hierarchical/recursive_exchange.h"
#include "collectives/knomial.h"
#include "collectives/knomial_blocks.h"
#include "collectives/linear.h"
#include "collectives/pairwise.h"
#include "collectives/pat.h"
#include "collectives/recursive_doubling.h"
#include "collectives/recursive_halving.h"
#include "collectives/ring.h"
#include "collectives/scatter_all_gather.h"
#include "collectives/tree.h"

namespace tutti {
namespace {

constexpr Algorithm kCatalogue[] = {
    all_pairs::kAllReduce,
    all_pairs::kAllReduceTwoShot,
    linear::kAllReduce,
    recursive_doubling::kAllReduce,
    ring::kAllReduce,
    halving_doubling::kAllReduce,
    double_tree::kAllReduce,
    hierarchical_ring::kAllReduce,
    hierarchical_leaders::kAllReduce,
    recursive_exchange::kAllReduce,
    recursive_exchange::kAllReduceScatter1,
    recursive_exchange::kAllReduceScatter2,
    recursive_exchange::kAllReduceScatter3,
    all_pairs::kReduceScatter,
    ring::kReduceScatter,
    pairwise::kReduceScatter,
    recursive_halving::kReduceScatter,
    pat::kReduceScatter,
    hierarchical_blocks::kReduceScatter,
    hierarchical_rounds::kReduceScatter,
    all_pairs::kAllGather,
    ring::kAllGather,
    pairwise::kAllGather,
    bruck::kAllGather,
    pat::kAllGather,
    hierarchical_blocks::kAllGather,
    hierarchical_rounds::kAllGather,
    all_pairs::kBroadcast,
    chain::kBroadcast,
    tree::kBroadcast,
    knomial::kBroadcast4,
    knomial::kBroadcast8,
    double_tree::kBroadcast,
    scatter_all_gather::kBroadcast,
    hierarchical_broadcast::kChain,
    hierarchical_broadcast::kTree,
    hierarchical_double_tree::kBroadcast,
    hierarchical_knomial::kBroadcast4,
    hierarchical_knomial::kBroadcast8,
    all_pairs::kReduce,
    chain::kReduce,
    tree::kReduce,
    knomial::kReduce4,
    knomial::kReduce8,
    double_tree::kReduce,
    hierarchical_reduce::kTree,
    hierarchical_double_tree::kReduce,
    hierarchical_knomial::kReduce4,
    hierarchical_knomial::kReduce8,
    all_pairs::kGather,
    knomial::kGather2,
    knomial::kGather4,
    hierarchical_gather::kGather,
    all_pairs::kScatter,
    knomial::kScatter2,
    knomial::kScatter4,
    hierarchical_gather::kScatter,
    all_pairs::kAllToAll,
    pairwise::kAllToAll,
    bruck::kAllToAll,
    hierarchical_all_to_all::kAllToAll,
    hierarchical_all_to_all::kAllToAll2,
    hierarchical_all_to_all::kAllToAll3,
    all_pairs::kBarrier,
    linear::kBarrier,
    dissemination::kBarrier,
    recursive_doubling::kBarrier,
    hierarchical_leaders::kBarrier,
};

constexpr bool promise_what_collectives_ask() {
  for (const Algorithm& algorithm : kCatalogue) {
    if ((algorithm.promises.reduces == Reduces::kNothing) == reduces(algorithm.collective)) return false;
  }
  return true;
}
static_assert(promise_what_collectives_ask());

}  // namespace

std::span<const Algorithm> catalogue() { return kCatalogue; }

const Algorithm* find_algorithm(Collective collective, std::string_view name) {
  for (const Algorithm& algorithm : kCatalogue) {
    if (algorithm.collective == collective && name == algorithm.name) return &algorithm;
  }
  return nullptr;
}

bool is_algorithm_name(std::string_view name) {
  for (const Algorithm& algorithm : kCatalogue) {
    if (name == algorithm.name) return true;
  }
  return false;
}

std::string algorithm_names(Collective collective) {
  std::string names;
  for (std::size_t i = 0; i < std::size(kCatalogue); ++i) {
    const Algorithm& algorithm = kCatalogue[i];
    if (collective != Collective::kNone && algorithm.collective != collective) continue;
    bool seen = false;
    for (std::size_t j = 0; j < i; ++j) {
      const bool counts = collective == Collective::kNone || kCatalogue[j].collective == collective;
      seen = seen || (counts && std::string_view(kCatalogue[j].name) == algorithm.name);
    }
    if (seen) continue;
    if (!names.empty()) names += ", ";
    names += algorithm.name;
  }
  return names;
}

}  // namespace tutti

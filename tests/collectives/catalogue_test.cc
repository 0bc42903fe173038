// The catalogue: names are its keys.
#include "collectives/catalogue.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

namespace tutti {
namespace {

TEST(Catalogue, HasNoNameTwice) {
  std::set<std::pair<Collective, std::string>> seen;
  for (const Algorithm& algorithm : catalogue()) {
    EXPECT_TRUE(seen.emplace(algorithm.collective, algorithm.name).second) << algorithm.name;
    EXPECT_EQ(find_algorithm(algorithm.collective, algorithm.name), &algorithm);
    EXPECT_TRUE(is_algorithm_name(algorithm.name));
    EXPECT_GE(algorithm.max_lanes, 1);
  }
}

TEST(Catalogue, KnowsWhatItDoesNotOffer) {
  EXPECT_EQ(find_algorithm(Collective::kBroadcast, "ring"), nullptr);
  EXPECT_EQ(find_algorithm(Collective::kAllReduce, "rings"), nullptr);
  EXPECT_FALSE(is_algorithm_name("rings"));
  EXPECT_FALSE(is_algorithm_name(""));
  EXPECT_EQ(algorithm_names(Collective::kBarrier), "all_pairs, dissemination, hierarchical");
  EXPECT_EQ(algorithm_names(Collective::kNone),
            "all_pairs, all_pairs_two_shot, recursive_doubling, ring, halving_doubling, double_tree, hierarchical, "
            "hierarchical_leaders, pairwise, recursive_halving, pat, bruck, chain, tree, knomial_4, knomial_8, "
            "scatter_all_gather, hierarchical_tree, dissemination");
}

}  // namespace
}  // namespace tutti

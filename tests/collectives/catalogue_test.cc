// Covers collectives/choice/catalogue.cc.
// The catalogue: names are its keys.
#include "collectives/choice/catalogue.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

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
}

std::vector<std::string> names_in(const std::string& list) {
  std::vector<std::string> names;
  std::size_t begin = 0;
  for (std::size_t end = 0; end != std::string::npos; begin = end + 2) {
    end = list.find(", ", begin);
    names.push_back(list.substr(begin, end - begin));
  }
  return names;
}

TEST(Catalogue, ListsEachNameOfACollectiveOnce) {
  std::map<Collective, std::set<std::string>> offered;
  for (const Algorithm& algorithm : catalogue()) {
    offered[algorithm.collective].insert(algorithm.name);
    offered[Collective::kNone].insert(algorithm.name);
  }
  for (const auto& [collective, names] : offered) {
    const std::vector<std::string> listed = names_in(algorithm_names(collective));
    EXPECT_EQ(listed.size(), names.size()) << algorithm_names(collective);
    EXPECT_EQ(std::set<std::string>(listed.begin(), listed.end()), names);
  }
}

}  // namespace
}  // namespace tutti

// Ranks that share no memory: every case over tcp, with ranks as threads, and as processes on pretended hosts; with
// checksums, with TLS, and while connections are cut.
// Covers comm/executor_factory.cc, comm/membership/data_connector.cc, transport/tcp/tcp.cc, transport/mixed/mixed.cc.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "cases/collective_cases.h"
#include "cases/effort_of.h"
#include "support/connections.h"
#include "support/depth.h"
#include "support/ranks.h"

namespace tutti::test {
namespace {

using cases::effort_with;
using cases::sample_of;

void run_cases(tuttiComm_t comm, int rank, int ranks, cases::Effort effort) {
  const cases::Outcome outcome = cases::run_all_cases(comm, rank, ranks, effort, kSanitized ? 10 : 50);
  EXPECT_GT(outcome.checked, 0);
  EXPECT_EQ(outcome.failed, 0) << "of " << outcome.checked << ": " << tuttiGetLastError(comm);
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
}

class FarThreads : public ::testing::TestWithParam<int> {};

TEST_P(FarThreads, AreExact) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "tcp");
  const int ranks = GetParam();
  const cases::Effort effort = effort_with(ranks, ranks <= 3 ? cases::Effort::kUsual : cases::Effort::kFew);
  run_threads(ranks, [&](tuttiComm_t comm, int rank) { run_cases(comm, rank, ranks, effort); });
}
INSTANTIATE_TEST_SUITE_P(Ranks, FarThreads, ::testing::Values(1, 2, 3, 4, 5, 8));

class FarModes : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(FarModes, AreExact) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "tcp");
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const ScopedSetting mode(GetParam().first, GetParam().second);
  for (const int ranks : {2, 3})
    run_threads(ranks,
                [&](tuttiComm_t comm, int rank) { run_cases(comm, rank, ranks, sample_of(cases::Effort::kFew)); });
}
INSTANTIATE_TEST_SUITE_P(Settings, FarModes,
                         ::testing::Values(std::pair("TUTTI_CHECKSUM", "1"), std::pair("TUTTI_TLS", "on"),
                                           std::pair("TUTTI_TILE_BYTES", "3K"), std::pair("TUTTI_ALGO", "ring"),
                                           std::pair("TUTTI_ALGO", "all_pairs_two_shot"),
                                           std::pair("TUTTI_ALGO", "recursive_doubling"),
                                           std::pair("TUTTI_ALGO", "tree"), std::pair("TUTTI_ALGO", "chain"),
                                           std::pair("TUTTI_RECONNECT", "0"), std::pair("TUTTI_DETERMINISTIC", "1")),
                         [](const auto& info) { return std::string(info.param.first + 6) + "_" + info.param.second; });

/// Letters by rank: equal ones share a host.
class FarHosts : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(FarHosts, AreExact) {
  const std::string hosts = std::get<0>(GetParam());
  const int ranks = static_cast<int>(hosts.size());
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const ScopedSetting algorithm("TUTTI_ALGO", std::get<1>(GetParam()));
  Processes processes(
      ranks,
      [&](tuttiComm_t comm, int rank, Shared&) {
        run_cases(comm, rank, ranks, sample_of(ranks <= 3 ? cases::Effort::kUsual : cases::Effort::kFew));
      },
      [&](int rank) { ::setenv("TUTTI_HOSTID", hosts.substr(static_cast<std::size_t>(rank), 1).c_str(), 1); });
  for (int rank = 0; rank < ranks; ++rank)
    EXPECT_EQ(processes.wait(rank), 0) << "rank " << rank << ": " << processes.shared().text[rank];
}

/// Processes start slowly under a sanitizer, and show it no more of their threads than the threads above.
std::vector<const char*> places() {
  if (kSanitized) return {"aab", "abab"};
  return {"ab", "aab", "abab", "aabb", "abcd", "aaabb", "aabbccaa"};
}
/// A ring is the same wherever its ranks are.
std::vector<const char*> places_of_rings() {
  if (kSanitized || covers_all()) return places();
  return {"aab", "abab"};
}
const auto kPlaceAndName = [](const auto& info) {
  return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param);
};
INSTANTIATE_TEST_SUITE_P(Places, FarHosts,
                         ::testing::Combine(::testing::ValuesIn(places()), ::testing::Values("auto", "hierarchical")),
                         kPlaceAndName);
INSTANTIATE_TEST_SUITE_P(Rings, FarHosts,
                         ::testing::Combine(::testing::ValuesIn(places_of_rings()), ::testing::Values("ring")),
                         kPlaceAndName);

/// Those that run by name only, with links of both kinds.
INSTANTIATE_TEST_SUITE_P(ByName, FarHosts,
                         ::testing::Combine(::testing::Values("aaabb"),
                                            ::testing::Values("halving_doubling", "double_tree", "bruck", "pat",
                                                              "knomial_4", "scatter_all_gather")),
                         kPlaceAndName);
INSTANTIATE_TEST_SUITE_P(Leaders, FarHosts,
                         ::testing::Combine(::testing::Values("aab", "abab"),
                                            ::testing::Values("hierarchical_leaders", "hierarchical_tree")),
                         kPlaceAndName);

/// Two hosts, one with a rank that drives no network; eight with two ranks each.
std::vector<const char*> places_of_exchanges() {
  if (kSanitized) return {"aabcc"};
  if (!covers_all()) return {"aaabb"};
  return {"aaabb", "aabbccddeeffgghh"};
}
constexpr const char* kExchanges[] = {"recursive_exchange", "scatter_exchange_1", "scatter_exchange_2"};
INSTANTIATE_TEST_SUITE_P(Exchanges, FarHosts,
                         ::testing::Combine(::testing::ValuesIn(places_of_exchanges()),
                                            ::testing::ValuesIn(kExchanges)),
                         kPlaceAndName);
/// Nine hosts, whose groups meet in two rounds and of which one is a guest, two of them with two ranks. In these rounds
/// the first of the exchanges sums twice, the last one scatters twice, and the one between does one after the other.
std::vector<const char*> exchanges_of_two_rounds() {
  if (kSanitized) return {};
  if (covers_all()) return {std::begin(kExchanges), std::end(kExchanges)};
  return {"scatter_exchange_1", "scatter_exchange_2"};
}
INSTANTIATE_TEST_SUITE_P(TwoRounds, FarHosts,
                         ::testing::Combine(::testing::Values("aabbcdefghi"),
                                            ::testing::ValuesIn(exchanges_of_two_rounds())),
                         kPlaceAndName);

/// Double trees: two hosts, one with a rank that drives no network; seven, of which one has two ranks; five, dealt out.
std::vector<const char*> places_of_trees() {
  if (kSanitized || !covers_all()) return {"aaabb"};
  return {"aaabb", "aabcdefg", "abcdeabcde"};
}
INSTANTIATE_TEST_SUITE_P(DoubleTrees, FarHosts,
                         ::testing::Combine(::testing::ValuesIn(places_of_trees()),
                                            ::testing::Values("hierarchical_double_tree")),
                         kPlaceAndName);
/// Two hosts, one with a rank that drives no network; nine, which are two levels of the tree.
std::vector<const char*> places_of_knomial_trees() {
  if (kSanitized) return {"aaabb"};
  return {"aaabb", "aabbcdefghi"};
}
INSTANTIATE_TEST_SUITE_P(KnomialTrees, FarHosts,
                         ::testing::Combine(::testing::ValuesIn(places_of_knomial_trees()),
                                            ::testing::Values("hierarchical_knomial_4")),
                         kPlaceAndName);
/// A short run has the wide tree on two hosts.
INSTANTIATE_TEST_SUITE_P(WideTrees, FarHosts,
                         ::testing::Combine(::testing::Values(covers_all() && !kSanitized ? "aabbcdefghi" : "aaabb"),
                                            ::testing::Values("hierarchical_knomial_8")),
                         kPlaceAndName);

/// All-gathers and reduce-scatters: hosts of two and more ranks that all meet in one round; five of two, in two rounds
/// of which the last one has a message for half of the hosts that it could serve; and one rank a host but for two.
std::vector<const char*> places_of_rounds() {
  if (kSanitized) return {"aabcc"};
  if (!covers_all()) return {"aaabb", "aabbccddee"};
  return {"aaabb", "aabbccddee", "aabcdefgg"};
}
INSTANTIATE_TEST_SUITE_P(Rounds, FarHosts,
                         ::testing::Combine(::testing::ValuesIn(places_of_rounds()),
                                            ::testing::Values("hierarchical_rounds")),
                         kPlaceAndName);

/// All-to-alls of several rounds: two hosts, one with a rank beyond the drivers; three of three, whose rows have a
/// place to fill, in order and dealt out; seven, one of them with two ranks.
std::vector<const char*> places_of_all_to_alls() {
  if (kSanitized) return {"aabcc"};
  if (!covers_all()) return {"aaabb", "aaabbbccc"};
  return {"aaabb", "aaabbbccc", "abcabcabc", "aabcdefg"};
}
INSTANTIATE_TEST_SUITE_P(AllToAlls, FarHosts,
                         ::testing::Combine(::testing::ValuesIn(places_of_all_to_alls()),
                                            ::testing::Values("hierarchical_2", "hierarchical_3")),
                         kPlaceAndName);

class FarCuts : public ::testing::TestWithParam<std::tuple<int, const char*>> {};

// All connections, of data and of control, are cut again and again in the middle of calls of all sizes.
TEST_P(FarCuts, DoNotChangeAnyResult) {
  const int ranks = std::get<0>(GetParam());
  const char* const tls = std::get<1>(GetParam());
  const ScopedSetting transport("TUTTI_TRANSPORT", "tcp");
  const ScopedSetting secrecy("TUTTI_TLS", tls);
  const ScopedSetting patience("TUTTI_RECONNECT", "1000");
  const ScopedSetting quiet("TUTTI_LOG", "error");
  std::atomic<bool> done{false};
  std::atomic<int> joined{0};
  const int goal = kSanitized ? 40 : 300;
  std::thread cutter([&] {
    std::mt19937 random(17);
    await([&] { return joined.load() >= ranks; }, "the ranks' joins");
    for (int cuts = 0; cuts < goal; ++cuts) {
      cut_connections([&](int) { return random() % 3 == 0; });
      ::usleep(random() % (kSanitized ? 20'000 : 4'000));
    }
    done.store(true);
  });
  run_threads(ranks, [&](tuttiComm_t comm, int rank) {
    joined.fetch_add(1);
    const std::size_t most = std::size_t{1} << (kSanitized ? 18 : 21);
    std::vector<float> input(most), output(most);
    int calls = 0;
    float stop = 0;
    while (stop == 0) {
      const std::size_t count = std::size_t{1} << (calls++ * 7 % (kSanitized ? 19 : 22));
      for (std::size_t i = 0; i < count; ++i) input[i] = static_cast<float>((i + static_cast<std::size_t>(rank)) % 64);
      ASSERT_EQ(tuttiAllReduce(input.data(), output.data(), count, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess)
          << tuttiGetLastError(comm);
      for (std::size_t i = 0; i < count; ++i) {
        float sum = 0;
        for (int r = 0; r < ranks; ++r) sum += static_cast<float>((i + static_cast<std::size_t>(r)) % 64);
        ASSERT_EQ(output[i], sum) << "element " << i << " of " << count << " in call " << calls;
      }
      const float mine = done.load() ? 1.0f : 0.0f;
      ASSERT_EQ(tuttiAllReduce(&mine, &stop, 1, tuttiFloat32, tuttiMin, comm, nullptr), tuttiSuccess)
          << tuttiGetLastError(comm);
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
  cutter.join();
}
INSTANTIATE_TEST_SUITE_P(Ranks, FarCuts, ::testing::Combine(::testing::Values(2, 3), ::testing::Values("off", "on")),
                         [](const auto& info) {
                           return std::to_string(std::get<0>(info.param)) + "_tls_" + std::get<1>(info.param);
                         });

}  // namespace
}  // namespace tutti::test

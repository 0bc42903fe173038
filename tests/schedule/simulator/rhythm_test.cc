// Covers schedule/simulator/rhythm.cc. When calls repeat, and which simulations end early.
#include "schedule/simulator/rhythm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>

#include "collectives/choice/catalogue.h"
#include "schedule/simulator/simulator.h"

namespace tutti {
namespace {

constexpr std::size_t kStrands = 3;
constexpr std::size_t kRounds = 40;
constexpr Time kRound = 1'000'000;

/// The round with which rounds begin to repeat, where strand s finishes round r at end(s, r); nothing: they never do.
std::optional<std::size_t> repeats_after(Rhythm& rhythm, bool share_cores,
                                         const std::function<Time(std::size_t, std::size_t)>& end) {
  rhythm.start(kStrands, kRounds, share_cores);
  for (std::size_t round = 0; round < kRounds; ++round) {
    for (std::size_t strand = 0; strand < kStrands; ++strand)
      EXPECT_EQ(rhythm.finish(strand, round, end(strand, round)), strand + 1 == kStrands);
    if (rhythm.repeats()) return round;
  }
  return std::nullopt;
}

TEST(Rhythm, EqualRoundsRepeat) {
  Rhythm rhythm;
  // The first call takes longer, as nothing is under way yet.
  const auto end = [](std::size_t strand, std::size_t round) {
    return static_cast<Time>(round) * kRound + static_cast<Time>(strand) * 1000 + (round == 0 ? 0 : kRound);
  };
  EXPECT_EQ(repeats_after(rhythm, true, end), 4u);
  EXPECT_EQ(rhythm.pace(), kRound);
}

TEST(Rhythm, LongAndShortRoundsInTurnRepeatTogether) {
  Rhythm rhythm;
  const auto end = [](std::size_t, std::size_t round) {
    return static_cast<Time>(round / 3) * 6 * kRound + static_cast<Time>(round % 3) * kRound;
  };
  EXPECT_EQ(repeats_after(rhythm, true, end), 6u);
  EXPECT_EQ(rhythm.pace(), 2 * kRound);
}

/// One strand is faster than the others until it has to wait for them.
TEST(Rhythm, NothingRepeatsWhileOneRunsAhead) {
  Rhythm rhythm;
  const auto end = [](std::size_t strand, std::size_t round) {
    const auto rounds = static_cast<Time>(round);
    return strand == 0 ? std::max(rounds * kRound / 2, (rounds - 16) * kRound) : rounds * kRound;
  };
  EXPECT_EQ(repeats_after(rhythm, true, end), 35u);
  EXPECT_EQ(rhythm.pace(), kRound);
}

/// Ranks that share cores may not drift apart as far as others.
TEST(Rhythm, DriftingRanksOfSharedCoresDoNotRepeat) {
  Rhythm rhythm;
  const auto drifting_by = [](Time drift) {
    return [drift](std::size_t strand, std::size_t round) {
      return static_cast<Time>(round) * (kRound - (strand == 0 ? drift : 0));
    };
  };
  EXPECT_EQ(repeats_after(rhythm, true, drifting_by(kRound / 4000)), std::nullopt);
  EXPECT_EQ(repeats_after(rhythm, false, drifting_by(kRound / 4000)), 3u);
  EXPECT_EQ(repeats_after(rhythm, false, drifting_by(kRound / 400)), std::nullopt);
}

SimulatedCall call_of(std::int32_t ranks, std::size_t bytes, std::size_t tile, bool repeated) {
  SimulatedCall call;
  call.shape = Shape{ranks, 0, 0, 1, nullptr};
  call.block = Bytes{bytes};
  call.tile = Bytes{tile};
  call.repeated = repeated;
  return call;
}

/// Two cores for the ranks of a host, or one for each; links with wires between the hosts, if there are any.
Network network_of(bool tcp, bool share_cores) {
  Network network;
  network.tcp = tcp;
  network.costs.cores = share_cores ? 2 : 1024;
  if (tcp) network.costs.tcp.wire_kib = 80'000;
  return network;
}

/// Calls of one, three, eight and 33 tiles, the last of which is short and counts by its bytes. Rooted ones are left
/// out: their first ranks run ahead.
TEST(Loop, EndsOnceItRepeats) {
  constexpr std::size_t kBytes = 64 * 1024;
  Simulator simulator;
  std::uint64_t all_steps = 0;
  std::uint64_t steps = 0;
  for (const Algorithm& algorithm : catalogue()) {
    if (is_rooted(algorithm.collective)) continue;
    for (const std::int32_t ranks : {2, 5, 8}) {
      for (const std::size_t tile : {kBytes, kBytes / 3 + 1024, kBytes / 8, kBytes / 33 + 60}) {
        const Network network = network_of(algorithm.hierarchical, false);
        SimulationLimits limits;
        limits.passes = 96;
        const SimulatedCall call = call_of(ranks, kBytes, tile, true);
        const Prediction whole = simulator.simulate(algorithm, call, network, limits);
        limits.until_repeats = true;
        const Prediction part = simulator.simulate(algorithm, call, network, limits);
        EXPECT_NEAR(static_cast<double>(part.time), static_cast<double>(whole.time),
                    0.04 * static_cast<double>(whole.time))
            << name_of(algorithm.collective) << " " << algorithm.name << ", " << ranks << " ranks, tiles of " << tile;
        all_steps += whole.steps;
        steps += part.steps;
      }
    }
  }
  EXPECT_LT(steps, all_steps / 4);
}

/// Its ranks share two cores and drift apart, so that it does not repeat before it is known to be slow.
TEST(Loop, EndsEarlyIfItIsTooSlow) {
  Simulator simulator;
  const Network network = network_of(false, true);
  SimulationLimits limits;
  limits.passes = 96;
  const Algorithm& algorithm = *find_algorithm(Collective::kAllReduce, "halving_doubling");
  const SimulatedCall call = call_of(8, 8, 8, true);
  const Time whole = simulator.simulate(algorithm, call, network, limits).time;
  limits.until_repeats = true;
  limits.longest = whole;
  EXPECT_NEAR(static_cast<double>(simulator.simulate(algorithm, call, network, limits).time),
              static_cast<double>(whole), 0.03 * static_cast<double>(whole));
  limits.longest = whole / 3;
  EXPECT_EQ(simulator.simulate(algorithm, call, network, limits).method, SimulationMethod::kTooSlow);
}

/// Calls of one tile, of a few and of many, which come to repeat later.
TEST(Loop, EndsOnceItHasEnoughSteps) {
  Simulator simulator;
  const Network network = network_of(false, true);
  const Algorithm& algorithm = *find_algorithm(Collective::kAllReduce, "halving_doubling");
  for (const std::size_t tiles : {1, 8, 20, 40}) {
    const SimulatedCall call = call_of(8, 64 * tiles, 64, true);
    SimulationLimits limits;
    limits.passes = 96;
    const Prediction whole = simulator.simulate(algorithm, call, network, limits);
    limits.until_repeats = true;
    const Prediction until_repeats = simulator.simulate(algorithm, call, network, limits);
    const std::size_t passes = tiles == 8 ? 32 : 24;
    ASSERT_GT(until_repeats.passes, passes) << tiles;
    limits.enough_steps = 1;
    const Prediction enough = simulator.simulate(algorithm, call, network, limits);
    EXPECT_EQ(enough.passes, passes) << tiles;
    EXPECT_NEAR(static_cast<double>(enough.time), static_cast<double>(whole.time),
                0.2 * static_cast<double>(whole.time))
        << tiles;
    limits.enough_steps = 1'000'000;
    EXPECT_EQ(simulator.simulate(algorithm, call, network, limits).passes, until_repeats.passes) << tiles;
  }
}

/// The network has wires. When a message has arrived, the others on its wire become faster.
TEST(SingleCall, EndsOnceItTakesLongerThanItMay) {
  Simulator simulator;
  for (const Algorithm& algorithm : catalogue()) {
    if (!is_rooted(algorithm.collective)) continue;
    for (const std::size_t tile : {1 << 20, 1 << 17}) {
      const Network network = network_of(true, false);
      const SimulatedCall call = call_of(8, 1 << 20, tile, false);
      SimulationLimits limits;
      limits.passes = 256;
      const Time time = simulator.simulate(algorithm, call, network, limits).time;
      limits.longest = time;
      EXPECT_EQ(simulator.simulate(algorithm, call, network, limits).time, time) << algorithm.name;
      limits.longest = time - 1;
      EXPECT_EQ(simulator.simulate(algorithm, call, network, limits).method, SimulationMethod::kTooSlow)
          << algorithm.name;
    }
  }
}

/// All ranks must come to the same choice, whatever each has simulated before.
TEST(Simulator, AnswersAfterAnEarlyEndAsIfItWereNew) {
  Simulator used;
  for (const bool tcp : {false, true}) {
    const Network network = network_of(tcp, !tcp);
    for (const char* name : {"ring", "halving_doubling", "all_pairs", "recursive_doubling"}) {
      const Algorithm& algorithm = *find_algorithm(Collective::kAllReduce, name);
      for (const Time longest : {Time{1}, Time{50'000'000}, std::numeric_limits<Time>::max()}) {
        for (const bool repeated : {false, true}) {
          for (const bool until_repeats : {true, false}) {
            SimulationLimits limits;
            limits.passes = 96;
            limits.longest = longest;
            limits.until_repeats = until_repeats;
            const SimulatedCall call = call_of(8, 1 << 12, 1 << 10, repeated);
            const Prediction a = used.simulate(algorithm, call, network, limits);
            const Prediction b = Simulator().simulate(algorithm, call, network, limits);
            EXPECT_EQ(a.method, b.method);
            EXPECT_EQ(a.time, b.time);
            EXPECT_EQ(a.passes, b.passes);
            EXPECT_EQ(a.steps, b.steps);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace tutti

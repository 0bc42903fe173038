#include "chaos/plan.h"

#include <algorithm>

#include "cases/element.h"

namespace tutti::chaos {
namespace {

constexpr const char* kLinks[] = {"shm", "TCP", "TLS", "shm and TCP"};

/// What a Chance is for: the seeds of the rounds, a plan, or what strikes a process, to which its number is added.
constexpr std::uint64_t kOfRounds = 0, kOfPlan = 1, kOfProcess = 1000;

Fault shortage_of(Chance& chance) {
  constexpr Fault kShortages[] = {Fault::kMemory, Fault::kThreads, Fault::kMappings, Fault::kDescriptors,
                                  Fault::kFiles};
  return kShortages[chance.below(5)];
}

Strike strike_of(Fault fault, Chance& chance) {
  using std::chrono::microseconds;
  Strike strike{fault, chance.below(50), microseconds(0), microseconds(0), 1};
  if (chance.is_in(3, 4)) strike.delay = microseconds(chance.below(chance.is_in(1, 2) ? 300 : 5000));
  if (fault == Fault::kPause) strike.duration = microseconds(chance.between(1'000, 300'000));
  if (fault == Fault::kStop) strike.duration = microseconds(chance.between(1'250'000, 2'500'000) * kShortTimeout);
  if (is_shortage(fault)) strike.duration = microseconds(chance.between(500, 30'000));
  if (is_shortage(fault)) strike.request = chance.between(1, 30);
  return strike;
}

}  // namespace

int Chance::below(int sides) { return static_cast<int>(draw() % static_cast<std::uint64_t>(sides)); }

std::uint64_t Chance::draw() { return cases::dice(seed_, purpose_, next_++); }

const char* name_of(Fault fault) {
  constexpr const char* kNames[] = {"kill",
                                    "stop",
                                    "pause",
                                    "cut",
                                    "lack of memory",
                                    "lack of threads",
                                    "lack of mappings",
                                    "lack of descriptors",
                                    "lack of room"};
  return kNames[static_cast<int>(fault)];
}

Plan plan_of(std::uint64_t seed, int round) {
  Plan plan;
  plan.seed = cases::dice(seed, kOfRounds, static_cast<std::uint64_t>(round));
  Chance chance(plan.seed, kOfPlan);
  plan.links = static_cast<Links>(chance.below(4));
  plan.ranks = chance.between(2, kMostRanks);
  plan.ranks_a_process = chance.is_in(1, 3) ? 2 : 1;
  plan.teams = chance.is_in(1, 3) ? 2 : 1;
  plan.episodes = chance.between(2, 6);
  plan.pauses = chance.is_in(1, 3);
  plan.delays = plan.links != Links::kShm && chance.is_in(1, 3);
  plan.cuts = plan.links != Links::kShm && chance.is_in(1, 3);
  plan.reconnects = !chance.is_in(1, 4);
  plan.kills = chance.is_in(3, 5);
  plan.stops = chance.is_in(1, 8);
  plan.shortages = chance.is_in(1, 4);
  plan.revokes = chance.is_in(1, 3);
  plan.excludes = chance.is_in(1, 3);
  plan.grows = chance.is_in(1, 2);
  return plan;
}

std::string text_of(const Plan& plan) {
  std::string text = std::to_string(plan.ranks) + " ranks over " + kLinks[static_cast<int>(plan.links)] + ", " +
                     std::to_string(plan.ranks_a_process) + " a process, " + std::to_string(plan.teams) + " teams, " +
                     std::to_string(plan.episodes) + " episodes";
  const auto add = [&](bool there, const char* what) {
    if (there) text += std::string(", ") + what;
  };
  add(plan.kills, "kills");
  add(plan.stops, "stops");
  add(plan.pauses, "pauses");
  add(plan.cuts, plan.reconnects ? "cuts" : "cuts for good");
  add(plan.shortages, "shortages");
  add(plan.delays, "delays");
  add(plan.revokes, "revokes");
  add(plan.excludes, "excludes");
  add(plan.grows, "grows");
  return text;
}

std::vector<Strike> strikes_of(const Plan& plan, int process) {
  std::vector<Strike> strikes;
  Chance chance(plan.seed, kOfProcess + static_cast<std::uint64_t>(process));
  const auto add = [&](bool there, int times, int of, auto fault) {
    const bool strikes_here = chance.is_in(times, of);  // also where it does not: the others stay as they are
    const Strike strike = strike_of(fault(), chance);
    if (there && strikes_here) strikes.push_back(strike);
  };
  const auto always = [](Fault fault) { return [fault] { return fault; }; };
  add(plan.kills, 1, 3, always(Fault::kKill));
  add(plan.stops, 1, 4, always(Fault::kStop));
  for (int i = 0; i < 3; ++i) {
    add(plan.pauses, 1, 4, always(Fault::kPause));
    add(plan.cuts, 1, 4, always(Fault::kCut));
  }
  for (int i = 0; i < 2; ++i) add(plan.shortages, 1, 3, [&] { return shortage_of(chance); });
  std::stable_sort(strikes.begin(), strikes.end(), [](const Strike& a, const Strike& b) { return a.call < b.call; });
  return strikes;
}

}  // namespace tutti::chaos

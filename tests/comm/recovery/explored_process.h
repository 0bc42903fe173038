// One process of an explored world: its agreement, what its ranks do, and what its history must not contradict.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "comm/recovery/agreement.h"

namespace tutti::test {

using ShrinkMessage = std::variant<ShrinkReport, ShrinkOrder>;

/// What happens to one process.
enum class Happening : std::uint8_t {
  kTakes,
  kLoses,
  kReconnects,
  kCalls,
  kWithdraws,
  kLeaves,
  kJoins,
  kFailsToJoin,
  kIsOverdue,
  kTicks,
};

/// What a process does when something happens to it.
struct Reaction {
  std::vector<std::pair<std::size_t, ShrinkMessage>> sent;
  std::string violation;
};

/// Values with equal pasts that matter are equal, so that worlds with equal processes are one.
struct ExploredProcess {
  ExploredProcess(const std::shared_ptr<const Agreement::Layout>& layout, std::size_t place)
      : agreement(layout, place), self(place) {}

  Agreement agreement;
  std::size_t self;
  NumberSet waiting;    // ranks whose call has not ended
  NumberSet withdrawn;  // in this round
  NumberSet departed;
  std::map<std::pair<std::uint64_t, Rank>, NumberSet> calls;  // by round, with what they exclude
  std::vector<Proposal> ends;                                 // of round 1, 2, ...
  std::set<std::pair<std::uint64_t, std::uint64_t>> began;    // round and number of joins
  std::set<std::pair<std::pair<std::uint64_t, std::uint64_t>, Rank>> joined;
  std::uint64_t number = 0;  // of the join that is under way or was the last one of this round
  Proposal joining;
  NumberSet unjoined;
  bool has_failed = false;  // the join of that number
  std::uint64_t promised = 0;
  std::uint64_t ordered = 0;
  auto operator<=>(const ExploredProcess&) const = default;

  /// Lets it happen. `rank` is the caller, or the one that joins; `excluded` is what it excludes.
  Reaction happens(Happening what, std::size_t from, const ShrinkMessage* message, Rank rank, const NumberSet& excluded,
                   bool makes_ids, const Agreement::Layout& layout);
  std::uint64_t round() const { return agreement.round(); }
  bool is_joining(std::uint64_t of_round, std::uint64_t of_number) const {
    return round() == of_round && number == of_number && !has_failed;
  }

 private:
  void act(bool makes_ids, const Agreement::Layout& layout, Reaction* reaction);
  void build(const Agreement::Build& action, const NumberSet& own);
  void end(const Agreement::End& action, const Agreement::Layout& layout, Reaction* reaction);
  void check_sent(const ShrinkMessage& message, Reaction* reaction);
  void give_up_join(Rank rank);
};

/// An id of the world: round, place and number.
IdBytes explored_id(std::uint64_t round, std::size_t place, std::uint64_t number);
std::uint64_t number_of(const IdBytes& id);

std::string text_of(const NumberSet& set);
std::string text_of(const Proposal& proposal);
std::string text_of(const ShrinkMessage& message);

}  // namespace tutti::test

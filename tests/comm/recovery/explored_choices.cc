// What may happen next in an explored world, and what must not have happened.
#include <fmt/format.h>

#include "comm/recovery/explored_world.h"

namespace tutti::test {

void World::list_events(const WorldState& state, std::vector<WorldEvent>* events) {
  events->clear();
  is_at_rest_ = false;
  if (scene_.calls_first && list_first_call(state, events)) return;
  const bool has_deliveries = list_deliveries(state, events);
  const bool has_joins = list_joins(state, events);
  if (!has_deliveries && !has_joins) {
    is_at_rest_ = state.ticks >= kMostTicks || !tick_changes(state);
    if (!is_at_rest_) events->push_back({Kind::kTick, 0, 0});
  }
  list_calls(state, events);
  list_mishaps(state, events);
}

/// Returns whether there is one left to call before anything else happens.
bool World::list_first_call(const WorldState& state, std::vector<WorldEvent>* events) const {
  for (std::size_t i = 0; i < place_of_.size(); ++i) {
    const Rank rank{static_cast<std::int32_t>(i)};
    if (idle_.has(rank) || process(state, place_of_[i]).calls.contains({1, rank})) continue;
    events->push_back({Kind::kCall, static_cast<std::uint8_t>(place_of_[i]), static_cast<std::uint8_t>(i)});
    return true;
  }
  if (!scene_.overdue_first || state.budget.overdues < scene_.overdues) return false;
  events->push_back({Kind::kOverdue, 0, 0});
  return true;
}

/// Returns whether any has to happen.
bool World::list_deliveries(const WorldState& state, std::vector<WorldEvent>* events) const {
  bool any = false;
  for (std::uint8_t a = 0; a < size(); ++a) {
    for (std::uint8_t b = 0; b < size(); ++b) {
      const WorldState::Channel& channel = state.channels[a][b];
      if (channel.size == 0 || !acts(state, b)) continue;
      any = true;
      events->push_back({Kind::kDelivery, a, b});
      const std::size_t mark = mark_in(channel);
      if (mark > 0 && mark < channel.size) events->push_back({Kind::kLoss, a, b});
      if (mark > 0 && state.budget.mislayings > 0) events->push_back({Kind::kMislaying, a, b});
    }
  }
  return any;
}

bool World::list_joins(const WorldState& state, std::vector<WorldEvent>* events) const {
  bool any = false;
  for (std::uint8_t place = 0; place < size(); ++place) {
    const ExploredProcess& self = process(state, place);
    if (!acts(state, place) || self.unjoined.empty()) continue;
    const bool joins = may_join(state, place);
    const bool has_to_fail = this->has_to_fail(state, place);
    any = any || joins || has_to_fail;
    for (const Rank rank : self.unjoined.ranks()) {
      const auto b = static_cast<std::uint8_t>(rank.value);
      if (joins) events->push_back({Kind::kJoin, place, b});
      if (may_fail(state, place) || state.budget.failing_joins > 0) events->push_back({Kind::kFailedJoin, place, b});
    }
  }
  return any;
}

/// All members' processes have begun at some time. Some may have gone on to another join since: whoever has passed the
/// barrier does not see that.
bool World::may_join(const WorldState& state, std::size_t place) const {
  const ExploredProcess& self = process(state, place);
  if (self.has_failed) return false;
  for (const Rank rank : self.joining.members.ranks()) {
    const ExploredProcess& other = process(state, place_of_[static_cast<std::size_t>(rank.value)]);
    if (!other.began.contains({self.round(), self.number})) return false;
  }
  return true;
}

bool World::has_to_fail(const WorldState& state, std::size_t place) const {
  const ExploredProcess& self = process(state, place);
  if (self.has_failed) return true;
  for (const Rank rank : self.joining.members.ranks()) {
    const std::size_t at = place_of_[static_cast<std::size_t>(rank.value)];
    if (at == place) continue;
    const ExploredProcess& other = process(state, at);
    const bool has_joined = other.joined.contains({{self.round(), self.number}, rank});
    const bool began = other.began.contains({self.round(), self.number});
    const bool failed = other.round() == self.round() && other.number == self.number && other.has_failed;
    const bool has_gone_on = began && !has_joined && !other.is_joining(self.round(), self.number);
    if (!lives(state, at) || is_cut(state, place, at) || failed || has_gone_on || other.round() > self.round())
      return true;
  }
  return false;
}

/// Who joins a stopped process may run out of patience.
bool World::may_fail(const WorldState& state, std::size_t place) const {
  if (has_to_fail(state, place)) return true;
  for (const Rank rank : process(state, place).joining.members.ranks())
    if (!acts(state, place_of_[static_cast<std::size_t>(rank.value)])) return true;
  return false;
}

void World::list_calls(const WorldState& state, std::vector<WorldEvent>* events) const {
  const WorldState::Budget& budget = state.budget;
  for (std::size_t i = 0; i < place_of_.size(); ++i) {
    const Rank rank{static_cast<std::int32_t>(i)};
    const auto a = static_cast<std::uint8_t>(place_of_[i]);
    const auto b = static_cast<std::uint8_t>(i);
    const ExploredProcess& self = process(state, a);
    if (!acts(state, a) || self.departed.has(rank)) continue;
    const bool waits = self.waiting.has(rank);
    if (!waits && !self.withdrawn.has(rank) && !self.agreement.has_left_out(rank) && !idle_.has(rank) &&
        self.round() <= static_cast<std::uint64_t>(scene_.rounds))
      events->push_back({Kind::kCall, a, b});
    if (waits && budget.withdrawals > 0) events->push_back({Kind::kWithdrawal, a, b});
    if (budget.departures > 0) events->push_back({Kind::kDeparture, a, b});
  }
}

void World::list_mishaps(const WorldState& state, std::vector<WorldEvent>* events) const {
  const WorldState::Budget& budget = state.budget;
  for (std::uint8_t a = 0; a < size(); ++a) {
    if (!lives(state, a)) continue;
    const ExploredProcess& self = process(state, a);
    if (budget.deaths > 0) events->push_back({Kind::kDeath, a, 0});
    if (!acts(state, a)) {
      if (!scene_.late_resumption || is_at_rest_) events->push_back({Kind::kResumption, a, 0});
      continue;
    }
    if (budget.stops > 0) events->push_back({Kind::kStop, a, 0});
    if (budget.overdues > 0 && !self.waiting.empty() && !self.agreement.is_overdue())
      events->push_back({Kind::kOverdue, a, 0});
    for (std::uint8_t b = 0; b < a; ++b) {
      if (!lives(state, b) || is_cut(state, a, b)) continue;
      if (budget.remakes > 0) events->push_back({Kind::kRemake, a, b});
      if (budget.cuts > 0) events->push_back({Kind::kCut, a, b});
    }
  }
}

bool World::tick_changes(const WorldState& state) {
  for (std::size_t place = 0; place < size(); ++place) {
    if (!acts(state, place)) continue;
    const Transition& made = transition(state.processes[place], Happening::kTicks, 0, 0, 0);
    if (made.process != state.processes[place] || !made.sent.empty()) return true;
  }
  return false;
}

/// Process `place` has just ended a round.
std::string World::check_end(const WorldState& state, std::size_t place) const {
  const ExploredProcess& self = process(state, place);
  const std::size_t round = self.ends.size();
  const Proposal& proposal = self.ends.back();
  for (std::size_t other = 0; other < size(); ++other) {
    if (other == place || process(state, other).ends.size() < round) continue;
    if (std::string violation = compare_ends(state, place, other, round - 1); !violation.empty()) return violation;
  }
  if (proposal.code != Code::kOk) {
    if (scene_.is_calm()) return fmt::format("process {} fails though nothing goes wrong", place);
    return "";
  }
  for (const Rank rank : proposal.members.ranks()) {
    const ExploredProcess& member = process(state, place_of_[static_cast<std::size_t>(rank.value)]);
    const auto call = member.calls.find({round, rank});
    if (call == member.calls.end()) return fmt::format("rank {} is a member and has not called", rank.value);
    if (call->second.meets(proposal.members)) return fmt::format("a member is excluded by rank {}", rank.value);
    if (!member.joined.contains({{round, number_of(proposal.id)}, rank}))
      return fmt::format("rank {} is a member and has not joined", rank.value);
  }
  return "";
}

/// Ends of one round are equal, unless nobody who has returned by one of them is left. Where processes that live may be
/// taken for gone, they are equal for two live members that count each other as members.
std::string World::compare_ends(const WorldState& state, std::size_t a, std::size_t b, std::size_t round) const {
  const Proposal& one = process(state, a).ends[round];
  const Proposal& other = process(state, b).ends[round];
  if (one == other) return "";
  const auto has_survivor = [&](const Proposal& proposal) {
    for (const Rank rank : proposal.members.ranks())
      if (lives(state, place_of_[static_cast<std::size_t>(rank.value)])) return true;
    return false;
  };
  const NumberSet& of_a = (*layout_)[a];
  const NumberSet& of_b = (*layout_)[b];
  const bool parts = scene_.cuts + scene_.stops > 0;
  if (!parts && (!has_survivor(one) || !has_survivor(other))) return "";
  if (parts) {
    if (!lives(state, a) || !lives(state, b) || one.code != Code::kOk || other.code != Code::kOk) return "";
    if (!one.members.meets(of_a) || !other.members.meets(of_b)) return "";
    if (!one.members.meets(of_b) || !other.members.meets(of_a)) return "";
  }
  return fmt::format("round {} ends with {} at process {}, and with {} at process {}", round + 1, text_of(one), a,
                     text_of(other), b);
}

/// It waits for a live rank that has not called, and nobody's patience is over.
bool World::waits_rightly(const WorldState& state, std::size_t place) const {
  const std::uint64_t round = process(state, place).round();
  NumberSet excluded;
  for (std::size_t at = 0; at < size(); ++at) {
    const ExploredProcess& other = process(state, at);
    if (!lives(state, at)) continue;
    if (other.agreement.is_overdue() && acts(state, at)) return false;
    for (const auto& [key, excludes] : other.calls)
      if (key.first == round && other.waiting.has(key.second)) excluded |= excludes;
  }
  for (std::size_t at = 0; at < size(); ++at) {
    const ExploredProcess& other = process(state, at);
    if (!lives(state, at)) continue;
    if (!acts(state, at) && !excluded.contains((*layout_)[at])) return true;
    const NumberSet missing = (*layout_)[at] - other.departed - other.waiting - excluded;
    if (other.round() <= round && !missing.empty()) return true;
  }
  return false;
}

std::string World::check_rest(const WorldState& state) const {
  NumberSet gone;
  for (const auto& [rank, excluded] : scene_.excluded)
    for (const int other : excluded) gone.add(Rank{other});
  for (std::size_t place = 0; place < size(); ++place) {
    const ExploredProcess& self = process(state, place);
    if (!acts(state, place)) continue;
    if (!self.waiting.empty() && !waits_rightly(state, place))
      return fmt::format("ranks {} of process {} wait for nobody", text_of(self.waiting), place);
    if (!scene_.is_calm() || self.ends.empty()) continue;
    NumberSet called;
    for (std::size_t rank = 0; rank < place_of_.size(); ++rank)
      if (!idle_.has(rank)) called.add(rank);
    const NumberSet& members = self.ends[0].members;
    if (!called.contains(members) || !members.contains(called - gone))
      return fmt::format("{} stay, {} call, and {} are excluded", text_of(members), text_of(called), text_of(gone));
  }
  return "";
}

}  // namespace tutti::test

#include "comm/recovery/explored_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace tutti::test {

World::World(const Scene& scene) : scene_(scene), layout_(std::make_shared<Agreement::Layout>()), messages_(2) {
  for (const auto& ranks : scene.ranks) {
    NumberSet set;
    for (const int rank : ranks) {
      set.add(Rank{rank});
      place_of_.resize(std::max(place_of_.size(), static_cast<std::size_t>(rank) + 1));
      place_of_[static_cast<std::size_t>(rank)] = layout_->size();
    }
    layout_->push_back(set);
  }
  for (const int rank : scene.idle) idle_.add(Rank{rank});
  for (std::size_t place = 0; place < size(); ++place)
    first_.processes[place] = number(ExploredProcess(layout_, place));
  const auto count = [](int given) { return static_cast<std::uint8_t>(given); };
  first_.budget = {
      count(scene.deaths),        count(scene.overdues),    count(scene.remakes),
      count(scene.cuts),          count(scene.withdrawals), count(scene.departures),
      count(scene.failing_joins), count(scene.stops),       count(scene.fault == Fault::kMislaidMessage ? 1 : 0)};
}

std::uint32_t World::number(const ExploredProcess& process) {
  const auto [entry, is_new] = known_.try_emplace(process, static_cast<std::uint32_t>(processes_.size()));
  if (is_new) processes_.push_back(&entry->first);
  return entry->second;
}

/// Each message goes through its bytes once.
std::uint16_t World::number(const ShrinkMessage& message) {
  const auto [entry, is_new] = known_messages_.try_emplace(message, static_cast<std::uint16_t>(messages_.size()));
  if (!is_new) return entry->second;
  if (messages_.size() > UINT16_MAX) throw std::length_error("the scene has too many messages");
  messages_.push_back(std::visit(
      [](const auto& sent) {
        std::remove_cvref_t<decltype(sent)> read;
        if (!decode(encode(sent), &read).ok() || read != sent) throw std::logic_error("a message changes on its way");
        return ShrinkMessage(read);
      },
      message));
  return entry->second;
}

const World::Transition& World::transition(std::uint32_t process, Happening what, std::size_t from,
                                           std::uint16_t message, int rank) {
  const std::uint64_t key = std::uint64_t{process} << 32 | std::uint64_t{message} << 16 |
                            static_cast<std::uint64_t>(what) << 12 | from << 8 | static_cast<std::uint64_t>(rank);
  const auto [entry, is_new] = transitions_.try_emplace(key);
  Transition& made = entry->second;
  if (!is_new) return made;
  ExploredProcess next = *processes_[process];
  const std::size_t ends = next.ends.size();
  NumberSet excluded;
  if (what == Happening::kCalls && next.round() == 1 && scene_.excluded.contains(rank))
    for (const int other : scene_.excluded.at(rank)) excluded.add(Rank{other});
  Reaction reaction = next.happens(what, from, message < 2 ? nullptr : &messages_[message], Rank{rank}, excluded,
                                   scene_.makes_ids, *layout_);
  made.process = number(next);
  made.has_ended = next.ends.size() > ends;
  if (made.has_ended) outcomes_.insert(text_of(next.ends.back()));
  made.violation = std::move(reaction.violation);
  for (auto& [to, sent] : reaction.sent) {
    auto* const report = std::get_if<ShrinkReport>(&sent);
    if (report != nullptr && scene_.fault == Fault::kForgottenExclusion) report->excluded = {};
    made.sent.emplace_back(static_cast<std::uint8_t>(to), number(sent));
  }
  return made;
}

std::string World::let(std::size_t place, Happening what, std::size_t from, std::uint16_t message, int rank,
                       WorldState* state) {
  const Transition& made = transition(state->processes[place], what, from, message, rank);
  state->processes[place] = made.process;
  for (const auto& [to, sent] : made.sent)
    if (!append(place, to, sent, state))
      return fmt::format("too many messages are on their way from {} to {}", place, to);
  if (!made.violation.empty()) return fmt::format("process {}: {}", place, made.violation);
  return made.has_ended ? check_end(*state, place) : "";
}

/// Returns false if the channel has more messages than any scene needs.
bool World::append(std::size_t from, std::size_t to, std::uint16_t message, WorldState* state) const {
  if (!lives(*state, to) || is_cut(*state, from, to)) return true;
  WorldState::Channel& channel = state->channels[from][to];
  if (channel.size == WorldState::Channel::kRoom) return false;
  channel.messages[channel.size++] = message;
  return true;
}

std::size_t World::mark_in(const WorldState::Channel& channel) {
  std::size_t i = 0;
  while (i < channel.size && channel.messages[i] > kRemade) ++i;
  return i;
}

/// What arrives if the scene has a fault that is about the leader: another message than was sent.
std::uint16_t World::distort(const WorldState& state, std::size_t to, std::uint16_t message) {
  const auto* const sent = std::get_if<ShrinkReport>(&messages_[message]);
  if (sent == nullptr) return message;
  ShrinkReport report = *sent;
  const std::uint64_t ordered = process(state, to).ordered;
  if (scene_.fault == Fault::kStaleReport && report.promised < ordered && report.promised != 0) {
    report.promised = ordered;
    if (report.number != 0) report.number = ordered;
  }
  if (scene_.fault == Fault::kNoCommitment && report.stage == ShrinkStage::kBuilt)
    report.stage = ShrinkStage::kCommitted;
  if (scene_.fault == Fault::kHiddenFailure && report.stage == ShrinkStage::kFailed) {
    report.stage = ShrinkStage::kBuilt;
    report.failure = Code::kOk;
    report.text.clear();
  }
  return number(report);
}

std::string World::deliver(std::size_t from, std::size_t to, WorldState* state) {
  WorldState::Channel& channel = state->channels[from][to];
  std::uint16_t message = channel.messages[0];
  std::copy(channel.messages.begin() + 1, channel.messages.begin() + channel.size, channel.messages.begin());
  channel.messages[--channel.size] = 0;
  if (message == kClosed) {
    if (scene_.fault == Fault::kSilentDeath && !lives(*state, from)) return "";
    return let(to, Happening::kLoses, from, 0, 0, state);
  }
  if (message == kRemade) return let(to, Happening::kReconnects, from, 0, 0, state);
  if (scene_.fault != Fault::kNone) message = distort(*state, to, message);
  return let(to, Happening::kTakes, from, message, 0, state);
}

void World::die(std::size_t place, WorldState* state) const {
  for (std::size_t other = 0; other < size(); ++other) {
    append(place, other, kClosed, state);
    state->channels[other][place] = {};
  }
  state->channels[place][place] = {};
  state->dead = static_cast<std::uint8_t>(state->dead | 1u << place);
  state->stopped = static_cast<std::uint8_t>(state->stopped & ~(1u << place));
}

std::string World::apply(const WorldEvent& event, WorldState* state) {
  const std::size_t a = event.a;
  if (event.kind >= Kind::kCall && event.kind < Kind::kTick) state->ticks = 0;
  switch (event.kind) {
    case Kind::kDelivery:
      return deliver(a, event.b, state);
    case Kind::kCall:
      return let(a, Happening::kCalls, 0, 0, event.b, state);
    case Kind::kWithdrawal:
      --state->budget.withdrawals;
      return let(a, Happening::kWithdraws, 0, 0, event.b, state);
    case Kind::kDeparture:
      --state->budget.departures;
      return let(a, Happening::kLeaves, 0, 0, event.b, state);
    case Kind::kJoin:
      return let(a, Happening::kJoins, 0, 0, event.b, state);
    case Kind::kFailedJoin:
      if (!may_fail(*state, a)) --state->budget.failing_joins;
      return let(a, Happening::kFailsToJoin, 0, 0, event.b, state);
    case Kind::kOverdue:
      --state->budget.overdues;
      return let(a, Happening::kIsOverdue, 0, 0, 0, state);
    case Kind::kTick:
      return tick(state);
    default:
      break;
  }
  strike(event, state);
  return "";
}

std::string World::tick(WorldState* state) {
  ++state->ticks;
  for (std::size_t place = 0; place < size(); ++place) {
    if (!acts(*state, place)) continue;
    if (std::string violation = let(place, Happening::kTicks, 0, 0, 0, state); !violation.empty()) return violation;
  }
  return "";
}

/// What no process sees at once.
void World::strike(const WorldEvent& event, WorldState* state) const {
  const std::size_t a = event.a;
  const std::size_t b = event.b;
  const auto both = [&](std::uint16_t mark) {
    append(a, b, mark, state);
    append(b, a, mark, state);
  };
  if (event.kind == Kind::kLoss || event.kind == Kind::kMislaying) {
    WorldState::Channel& channel = state->channels[a][b];
    const std::size_t lost = event.kind == Kind::kLoss ? mark_in(channel) : 1;
    if (event.kind == Kind::kMislaying) --state->budget.mislayings;
    WorldState::Channel rest;
    for (std::size_t i = lost; i < channel.size; ++i) rest.messages[rest.size++] = channel.messages[i];
    channel = rest;
  } else if (event.kind == Kind::kDeath) {
    --state->budget.deaths;
    die(a, state);
  } else if (event.kind == Kind::kRemake) {
    --state->budget.remakes;
    both(kRemade);
  } else if (event.kind == Kind::kCut) {
    --state->budget.cuts;
    both(kClosed);
    state->cut |= 1u << (a * WorldState::kPlaces + b) | 1u << (b * WorldState::kPlaces + a);
  } else if (event.kind == Kind::kStop) {
    --state->budget.stops;
    state->stopped = static_cast<std::uint8_t>(state->stopped | 1u << a);
  } else if (event.kind == Kind::kResumption) {
    state->stopped = static_cast<std::uint8_t>(state->stopped & ~(1u << a));
  }
}

/// Two independent products of all that is in use.
StateHash World::hash(const WorldState& state) const {
  StateHash hash{0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f};
  const auto mix = [&hash](std::uint64_t word) {
    hash.low = std::rotl((hash.low ^ word) * 0xff51afd7ed558ccd, 29) + 0x52dce729;
    hash.high = std::rotl((hash.high + word) * 0xc4ceb9fe1a85ec53, 31) ^ (hash.high >> 17);
  };
  for (std::size_t a = 0; a < size(); ++a) {
    mix(state.processes[a]);
    for (std::size_t b = 0; b < size(); ++b) {
      const WorldState::Channel& channel = state.channels[a][b];
      std::uint64_t word = channel.size;
      for (std::size_t i = 0; i < channel.size; ++i) {
        word = word << 16 | channel.messages[i];
        if (i % 3 == 2) mix(std::exchange(word, 0));
      }
      mix(word);
    }
  }
  const auto& budget = state.budget;
  mix(std::uint64_t{state.cut} << 32 | std::uint64_t{state.dead} << 16 | std::uint64_t{state.stopped} << 8 |
      state.ticks);
  mix(std::uint64_t{budget.deaths} << 56 | std::uint64_t{budget.overdues} << 48 | std::uint64_t{budget.remakes} << 40 |
      std::uint64_t{budget.cuts} << 32 | std::uint64_t{budget.withdrawals} << 24 |
      std::uint64_t{budget.departures} << 16 | std::uint64_t{budget.failing_joins} << 8 | budget.stops);
  mix(budget.mislayings);
  mix(0);
  return hash;
}

std::string World::describe(const WorldEvent& event, const WorldState& before) const {
  const auto& channel = before.channels[event.a][event.b % WorldState::kPlaces];
  switch (event.kind) {
    case Kind::kDelivery: {
      const std::uint16_t message = channel.messages[0];
      const std::string text = message == kClosed   ? "the end of the connection"
                               : message == kRemade ? "a new connection"
                                                    : text_of(messages_[message]);
      return fmt::format("process {} gets from {}: {}", event.b, event.a, text);
    }
    case Kind::kLoss:
      return fmt::format("messages from {} to {} are lost ({})", event.a, event.b, mark_in(channel));
    case Kind::kMislaying:
      return fmt::format("a message from {} to {} is mislaid", event.a, event.b);
    case Kind::kCall:
      return fmt::format("rank {} of process {} calls", event.b, event.a);
    case Kind::kWithdrawal:
      return fmt::format("rank {} of process {} withdraws", event.b, event.a);
    case Kind::kDeparture:
      return fmt::format("rank {} of process {} leaves", event.b, event.a);
    case Kind::kJoin:
      return fmt::format("rank {} of process {} has joined", event.b, event.a);
    case Kind::kFailedJoin:
      return fmt::format("rank {} of process {} fails to join", event.b, event.a);
    case Kind::kDeath:
      return fmt::format("process {} dies", event.a);
    case Kind::kOverdue:
      return fmt::format("process {} is overdue", event.a);
    case Kind::kRemake:
      return fmt::format("the connection of {} and {} is remade", event.a, event.b);
    case Kind::kCut:
      return fmt::format("{} and {} are cut from each other", event.a, event.b);
    case Kind::kStop:
      return fmt::format("process {} stops", event.a);
    case Kind::kResumption:
      return fmt::format("process {} goes on", event.a);
    case Kind::kTick:
      break;
  }
  return fmt::format("time passes ({})", before.ticks + 1);
}

}  // namespace tutti::test

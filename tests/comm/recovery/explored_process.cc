#include "comm/recovery/explored_process.h"

#include <fmt/format.h>

namespace tutti::test {
namespace {

constexpr const char* kStages[] = {"asked", "building", "built", "failed", "committed", "decided"};

}  // namespace

Reaction ExploredProcess::happens(Happening what, std::size_t from, const ShrinkMessage* message, Rank rank,
                                  const NumberSet& excluded, bool makes_ids, const Agreement::Layout& layout) {
  Reaction reaction;
  const auto take = [&](const auto& taken) {
    if (!agreement.take(from, taken)) reaction.violation = "it refuses what a process has sent";
  };
  switch (what) {
    case Happening::kTakes:
      std::visit(take, *message);
      break;
    case Happening::kLoses:
      agreement.lost(from);
      break;
    case Happening::kReconnects:
      agreement.connected(from);
      break;
    case Happening::kCalls:
      waiting.add(rank);
      calls[{round(), rank}] = excluded;
      if (!agreement.call(rank, excluded)) reaction.violation = "a call is refused";
      break;
    case Happening::kWithdraws:
      withdrawn.add(rank);
      give_up_join(rank);
      agreement.withdraw(rank);
      break;
    case Happening::kLeaves:
      departed.add(rank);
      give_up_join(rank);
      agreement.leave(rank);
      break;
    case Happening::kJoins:
      unjoined.remove(rank);
      joined.insert({{round(), number}, rank});
      agreement.built(rank, number, Status());
      break;
    case Happening::kFailsToJoin:
      unjoined.remove(rank);
      has_failed = true;
      agreement.built(rank, number, Status(Code::kSystemError, "no join"));
      break;
    case Happening::kIsOverdue:
      agreement.overdue();
      break;
    case Happening::kTicks:
      agreement.tick();
      break;
  }
  act(makes_ids, layout, &reaction);
  return reaction;
}

void ExploredProcess::give_up_join(Rank rank) {
  waiting.remove(rank);
  has_failed = has_failed || unjoined.has(rank);
  unjoined.remove(rank);
}

void ExploredProcess::act(bool makes_ids, const Agreement::Layout& layout, Reaction* reaction) {
  for (auto actions = agreement.take_actions(); !actions.empty(); actions = agreement.take_actions()) {
    for (const Agreement::Action& action : actions) {
      if (std::holds_alternative<Agreement::End>(action) && &action != &actions.back())
        reaction->violation = "others hear of the end only after ranks may have returned";
      if (const auto* report = std::get_if<Agreement::SendReport>(&action)) {
        check_sent(report->report, reaction);
        reaction->sent.emplace_back(report->to, report->report);
      } else if (const auto* order = std::get_if<Agreement::SendOrder>(&action)) {
        check_sent(order->order, reaction);
        reaction->sent.emplace_back(order->to, order->order);
      } else if (const auto* make = std::get_if<Agreement::MakeId>(&action)) {
        agreement.id_made(make->number, explored_id(round(), self, make->number),
                          makes_ids ? Status() : Status(Code::kSystemError, "no id"));
      } else if (const auto* joins = std::get_if<Agreement::Build>(&action)) {
        build(*joins, layout[self]);
      } else {
        end(std::get<Agreement::End>(action), layout, reaction);
      }
    }
  }
}

void ExploredProcess::build(const Agreement::Build& action, const NumberSet& own) {
  const NumberSet members = action.proposal.members & own;
  number = action.number;
  joining = action.proposal;
  unjoined = members & waiting;
  has_failed = !waiting.contains(members);
  if (!has_failed) began.insert({round(), number});
}

void ExploredProcess::end(const Agreement::End& action, const Agreement::Layout& layout, Reaction* reaction) {
  const Proposal& proposal = action.proposal;
  if (action.round != ends.size() + 1) reaction->violation = "it ends another round than its own";
  NumberSet everyone;
  for (const NumberSet& ranks : layout) everyone |= ranks;
  for (const Proposal& earlier : ends)
    if (earlier.code == Code::kOk && proposal.members.meets(everyone - earlier.members))
      reaction->violation = "a rank that was left out is a member of a later round";
  ends.push_back(proposal);
  waiting = withdrawn = unjoined = {};
  number = promised = ordered = 0;
  joining = {};
  has_failed = false;
  for (const Rank rank : (layout[self] - proposal.members).ranks()) {
    if (proposal.code != Code::kOk) break;
    Agreement copy = agreement;
    if (copy.call(rank, {})) reaction->violation = "a rank that is left out may call again";
  }
}

void ExploredProcess::check_sent(const ShrinkMessage& message, Reaction* reaction) {
  if (const auto* report = std::get_if<ShrinkReport>(&message)) {
    if (report->round != ends.size() + 1) reaction->violation = "it reports of another round";
    if (report->promised < promised) reaction->violation = "its promise goes down";
    promised = report->promised;
    return;
  }
  const auto& order = std::get<ShrinkOrder>(message);
  if (order.stage == ShrinkStage::kDecided) return;
  if (order.round != ends.size() + 1) reaction->violation = "it gives an order of another round";
  if (order.number < ordered) reaction->violation = "the number of its orders goes down";
  ordered = order.number;
}

IdBytes explored_id(std::uint64_t round, std::size_t place, std::uint64_t number) {
  IdBytes id{};
  id[0] = static_cast<std::byte>(round);
  id[1] = static_cast<std::byte>(place);
  id[2] = static_cast<std::byte>(number);
  return id;
}

std::uint64_t number_of(const IdBytes& id) { return static_cast<std::uint64_t>(id[2]); }

std::string text_of(const NumberSet& set) {
  std::string text = "{";
  set.for_each([&](std::size_t number) { text += fmt::format("{}{}", text.size() > 1 ? "," : "", number); });
  return text + "}";
}

std::string text_of(const Proposal& proposal) {
  const std::string members = text_of(proposal.members);
  if (proposal.code != Code::kOk) return fmt::format("failure {} of {}", static_cast<int>(proposal.code), members);
  return fmt::format("{} by id {}", members, number_of(proposal.id));
}

std::string text_of(const ShrinkMessage& message) {
  if (const auto* report = std::get_if<ShrinkReport>(&message)) {
    return fmt::format("report of round {}: promised {}, {} {} {}, called {}, awaited {}, excluded {}, out {}{}{}",
                       report->round, report->promised, report->number, kStages[static_cast<int>(report->stage)],
                       report->number == 0 ? "" : text_of(report->proposal), text_of(report->called),
                       text_of(report->awaited), text_of(report->excluded), text_of(report->out),
                       report->overdue ? ", overdue" : "", report->asks ? ", asks" : "");
  }
  const auto& order = std::get<ShrinkOrder>(message);
  const bool proposes = order.stage != ShrinkStage::kAsked;
  return fmt::format("order of round {}: {} {} {}, out {}{}", order.round, order.number,
                     kStages[static_cast<int>(order.stage)], proposes ? text_of(order.proposal) : "",
                     text_of(order.out), order.overdue ? ", overdue" : "");
}

}  // namespace tutti::test

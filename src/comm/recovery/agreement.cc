#include "comm/recovery/agreement.h"

#include <algorithm>
#include <utility>

namespace tutti {

Agreement::Agreement(std::shared_ptr<const Layout> layout, std::size_t self)
    : layout_(std::move(layout)), self_(self), present_((*layout_)[self]) {
  for (std::size_t place = 0; place < layout_->size(); ++place) {
    all_places_.add(place);
    all_ranks_ |= ranks_of(place);
  }
}

std::vector<Agreement::Action> Agreement::take_actions() { return std::exchange(actions_, {}); }

bool Agreement::call(Rank rank, const NumberSet& excluded) {
  if (left_out_.has(rank)) return false;
  calls_[rank] = excluded;
  report_due_ = true;
  settle();
  return true;
}

void Agreement::withdraw(Rank rank) {
  if (calls_.erase(rank) == 0) return;
  give_up_build(rank, fail(Code::kRemoteError, "rank {} does not shrink any more", rank.value));
  settle();
}

void Agreement::leave(Rank rank) {
  present_.remove(rank);
  calls_.erase(rank);
  give_up_build(rank, fail(Code::kRemoteError, "rank {} has left", rank.value));
  settle();
}

/// If one rank's join fails, those of the others end by a remote error.
bool Agreement::explains_more(Code code, Code known) {
  return code != Code::kOk && (known == Code::kOk || (known == Code::kRemoteError && code != Code::kRemoteError));
}

void Agreement::give_up_build(Rank rank, const Status& why) {
  report_due_ = true;
  if (held_.stage != ShrinkStage::kBuilding || !held_.unbuilt.has(rank)) return;
  held_.unbuilt.remove(rank);
  if (explains_more(why.code(), held_.failure)) {
    held_.failure = why.code();
    held_.text = why.text();
  }
  if (held_.unbuilt.empty()) held_.stage = held_.failure == Code::kOk ? ShrinkStage::kBuilt : ShrinkStage::kFailed;
}

void Agreement::built(Rank rank, std::uint64_t number, const Status& why) {
  if (number != held_.number) return;  // of a proposal that was given up
  give_up_build(rank, why);
  settle();
}

void Agreement::id_made(std::uint64_t number, const IdBytes& id, const Status& why) {
  if (number != number_ || stage_ != ShrinkStage::kAsked || !id_is_due_) return;
  id_is_due_ = false;
  id_ = id;
  if (!why.ok()) {
    proposal_ = Proposal{.members = called(), .id = {}, .code = why.code(), .text = why.text()};
    enter(ShrinkStage::kCommitted);
  }
  settle();
}

void Agreement::overdue() {
  if (!is_active() || overdue_) return;
  overdue_ = true;
  report_due_ = true;
  settle();
}

void Agreement::tick() {
  if (!is_active()) return;
  waited_for().for_each([this, gone = excluded()](std::size_t place) {
    if (!may_go(place, gone)) return;
    if (++silent_[place] > kPatience) {
      add_out(place);
      return;
    }
    if (leads()) return send_order_to(place);
    send_report_to(place, true);
  });
  settle();
}

void Agreement::lost(std::size_t place) {
  add_out(place);
  settle();
}

void Agreement::connected(std::size_t place) {
  if (round_ > 1) answer_by_decision(place, round_ - 1);
  if (leads() && number_ != 0) send_order_to(place);
  if (!leads() && place == leader()) report_due_ = asks_ = true;
  settle();
}

bool Agreement::fits(std::size_t from, const Proposal& proposal, const NumberSet& out) const {
  return from < layout_->size() && from != self_ && all_places_.contains(out) && all_ranks_.contains(proposal.members);
}

/// Returns whether the sender belongs to those who agree with this process. One that counts as gone gets an answer that
/// says so, unless it says the same. For whom this process is gone decides without it, and it is to hear of that before
/// it goes on without them.
bool Agreement::heard(std::size_t from, const NumberSet& their_out) {
  if (their_out.has(self_)) {
    dropped_by_.add(from);
    return false;
  }
  silent_.erase(from);
  accused_.remove(from);
  if (out_.has(from)) {
    send_report_to(from);
    return false;
  }
  // Once this process knows that all have joined, its leader may have returned. So it makes sure itself.
  const bool is_bound = held_.stage == ShrinkStage::kCommitted;
  (their_out - out_).for_each([&](std::size_t place) {
    if (is_bound && place == leader())
      accused_.add(place);
    else if (add_out(place))
      send_report_to(place);  // if it lives, it is not to wait for this process
  });
  return true;
}

/// Returns whether it did not count as gone yet.
bool Agreement::add_out(std::size_t place) {
  if (place == self_ || !out_.add(place)) return false;
  accused_.remove(place);
  dropped_by_.remove(place);
  silent_.erase(place);
  reports_.erase(place);
  report_due_ = true;
  return true;
}

/// The sender is in a later round. Who counts as gone there may have been left out, and does not know it yet.
void Agreement::ask_for_decision(std::size_t from) {
  silent_.erase(from);
  if (!out_.has(from)) send_report_to(from);
}

bool Agreement::take(std::size_t from, const ShrinkReport& report) {
  if (!fits(from, report.proposal, report.out)) return false;
  if (!ranks_of(from).contains(report.called | report.awaited) || !all_ranks_.contains(report.excluded)) return false;
  if (report.round < round_) {
    answer_by_decision(from, report.round);
    if (leads() && number_ != 0) send_order_to(from);
    if (!leads() && from == leader()) report_due_ = asks_ = true;
  } else if (report.round > round_) {
    ask_for_decision(from);
  } else if (heard(from, report.out)) {
    reports_[from] = report;
    if (report.asks && leads() && number_ != 0) send_order_to(from);
  }
  settle();
  return true;
}

bool Agreement::take(std::size_t from, const ShrinkOrder& order) {
  if (!fits(from, order.proposal, order.out)) return false;
  const bool decides = order.stage == ShrinkStage::kDecided;
  // Somebody may have returned by the proposal that this process holds. If nobody can have, this process takes even the
  // decision of those for whom it is gone.
  const bool may_have_returned = held_.stage == ShrinkStage::kCommitted;
  if (!decides && (order.number == 0 || leader_of(order.number) != from)) return false;
  if (order.round < round_) {
    if (!decides) answer_by_decision(from, order.round);
  } else if (order.round > round_) {
    ask_for_decision(from);
  } else if (decides && out_.has(from)) {
    // The sender has gone on without this process. An answer would bring the same again.
  } else if (decides && (from == leader() || !order.out.has(self_) || !may_have_returned)) {
    pass_on(order.proposal, from);
  } else if (heard(from, order.out)) {
    if (from == leader() && order.number >= promised_)
      follow(order);
    else {
      send_report_to(from);  // this process lives, but follows another one, or a higher number
      passed_over_.add(from);
    }
  }
  settle();
  return true;
}

/// Those hear of it from this process that took it for their leader or for a follower, while it followed another one.
void Agreement::pass_on(const Proposal& decided, std::size_t from) {
  for (const auto& [place, report] : reports_) passed_over_.add(place);
  // Who is left out is to hear of it before it hears that members leave the old communicator.
  for (std::size_t place = 0; place < layout_->size() && decided.code == Code::kOk; ++place)
    if (!decided.members.contains(ranks_of(place))) passed_over_.add(place);
  passed_over_.remove(from);
  passed_over_.remove(self_);
  passed_over_.for_each([&](std::size_t place) { send_decision(place, round_, decided); });
  finish(decided);
}

void Agreement::follow(const ShrinkOrder& order) {
  promised_ = order.number;
  overdue_ = overdue_ || order.overdue;
  report_due_ = true;
  if (order.stage == ShrinkStage::kBuilding && held_.number != order.number) build(order);
  if (order.stage == ShrinkStage::kCommitted) hold(order, ShrinkStage::kCommitted);
}

void Agreement::hold(const ShrinkOrder& order, ShrinkStage stage) {
  held_ = {};
  held_.number = order.number;
  held_.stage = stage;
  held_.proposal = order.proposal;
}

void Agreement::build(const ShrinkOrder& order) {
  hold(order, ShrinkStage::kBuilding);
  held_.unbuilt = order.proposal.members & ranks_of(self_);
  if (held_.unbuilt.empty()) held_.stage = ShrinkStage::kBuilt;
  for (const Rank rank : held_.unbuilt.ranks())
    if (!calls_.contains(rank))
      give_up_build(rank, fail(Code::kRemoteError, "rank {} does not shrink any more", rank.value));
  if (held_.stage == ShrinkStage::kBuilding) actions_.push_back(Build{held_.number, held_.proposal});
}

void Agreement::send_decision(std::size_t place, std::uint64_t round, const Proposal& proposal) {
  ShrinkOrder decided;
  decided.round = round;
  decided.stage = ShrinkStage::kDecided;
  decided.proposal = proposal;
  actions_.push_back(SendOrder{place, std::move(decided)});
}

/// Tells how a round ended that is over. Only a process that was left out asks about a round before the last one, and
/// the empty proposal tells it so.
void Agreement::answer_by_decision(std::size_t place, std::uint64_t round) {
  send_decision(place, round, round + 1 == round_ ? last_ : Proposal());
}

void Agreement::finish(const Proposal& proposal) {
  actions_.push_back(End{round_, proposal});
  last_ = proposal;
  if (proposal.code == Code::kOk) {
    for (std::size_t place = 0; place < layout_->size(); ++place) {
      left_out_ |= ranks_of(place) - proposal.members;
      if (place != self_ && left_out_.contains(ranks_of(place))) out_.add(place);
    }
  }
  ++round_;
  calls_.clear();
  reports_.clear();
  accused_ = dropped_by_ = passed_over_ = {};
  silent_.clear();
  held_ = {};
  promised_ = number_ = 0;
  overdue_ = report_due_ = asks_ = id_is_due_ = false;
  reported_to_ = SIZE_MAX;
  adopted_.reset();
  id_.reset();
}

std::size_t Agreement::leader() const {
  std::size_t place = 0;
  while (out_.has(place)) ++place;  // it never has this process
  return place;
}

ShrinkReport Agreement::report(bool asks) const {
  ShrinkReport made;
  made.round = round_;
  made.promised = promised_;
  made.number = held_.number;
  made.stage = held_.stage;
  made.proposal = held_.proposal;
  if (held_.stage == ShrinkStage::kFailed) {
    made.failure = held_.failure;
    made.text = held_.text;
  }
  for (const auto& [rank, excludes] : calls_) {
    made.called.add(rank);
    made.excluded |= excludes;
  }
  made.awaited = present_ - made.called - left_out_;
  made.out = out_;
  made.overdue = overdue_;
  made.asks = asks;
  return made;
}

ShrinkOrder Agreement::order() const {
  ShrinkOrder made;
  made.round = round_;
  made.number = number_;
  made.stage = stage_;
  made.proposal = proposal_;
  made.out = out_;
  made.overdue = overdue_;
  return made;
}

void Agreement::settle() {
  if (!is_active()) return;
  while (leads() && advance()) continue;
  if (leads() || (calls_.empty() && promised_ == 0)) return;
  const bool is_new = leader() != reported_to_;
  if (is_new || report_due_) send_report_to(leader(), is_new || asks_);
  reported_to_ = leader();
  report_due_ = asks_ = false;
}

}  // namespace tutti

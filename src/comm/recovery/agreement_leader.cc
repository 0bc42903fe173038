// What the process that leads a shrink does.
#include <algorithm>

#include "comm/recovery/agreement.h"

namespace tutti {

/// One step. Returns whether there may be another one.
bool Agreement::advance() {
  if (!is_active()) return false;
  for (const auto& [place, report] : reports_) overdue_ = overdue_ || report.overdue;
  if (number_ == 0 || is_overtaken()) {
    attempt();
    return true;
  }
  reports_[self_] = report();
  // A member that has ended or withdrawn leaves no trace, as long as nobody can have returned.
  const bool stands = stage_ == ShrinkStage::kAsked || adopted_ || proposal_.code != Code::kOk;
  if (!stands && !called().contains(proposal_.members)) {
    attempt();
    return true;
  }
  if (!missing().empty()) return false;
  if (stage_ == ShrinkStage::kAsked) return adopt_committed() || propose();
  if (stage_ == ShrinkStage::kBuilding) return judge_builds();
  end(proposal_);
  return true;
}

bool Agreement::is_overtaken() const {
  return promised_ > number_ || std::any_of(reports_.begin(), reports_.end(),
                                            [this](const auto& item) { return item.second.promised > number_; });
}

/// Each number belongs to one process, and is higher than all that were promised.
void Agreement::attempt() {
  std::uint64_t highest = promised_;
  for (const auto& [place, report] : reports_) highest = std::max(highest, report.promised);
  const std::uint64_t size = layout_->size();
  number_ = highest - highest % size + self_ + 1;
  if (number_ <= highest) number_ += size;
  proposal_ = {};
  id_.reset();
  id_is_due_ = false;
  enter(ShrinkStage::kAsked);
}

void Agreement::enter(ShrinkStage stage) {
  stage_ = stage;
  silent_.clear();
  for (std::size_t place = 0; place < layout_->size(); ++place)
    if (place != self_ && !out_.has(place)) send_order_to(place);
  follow(order());
}

/// The processes that the stage waits for.
NumberSet Agreement::missing() const {
  NumberSet places;
  for (std::size_t place = 0; place < layout_->size(); ++place) {
    if (out_.has(place)) continue;
    const auto known = reports_.find(place);
    const ShrinkReport* const report = known == reports_.end() ? nullptr : &known->second;
    bool answered = report != nullptr && report->promised == number_;
    if (stage_ != ShrinkStage::kAsked) {
      if (!ranks_of(place).meets(proposal_.members)) continue;
      answered = answered && report->number == number_ && report->stage >= ShrinkStage::kBuilt;
    }
    if (stage_ == ShrinkStage::kCommitted) answered = answered && report->stage == ShrinkStage::kCommitted;
    if (!answered) places.add(place);
  }
  return places;
}

NumberSet Agreement::waited_for() const {
  NumberSet places = accused_ | dropped_by_;
  if (!leads()) {
    places.add(leader());
  } else if (number_ != 0) {
    places |= missing();
  }
  places.remove(self_);
  return places;
}

/// A process that does not answer counts as gone only where nobody would wait for it anyway, or where another one says
/// that it is gone.
bool Agreement::may_go(std::size_t place, const NumberSet& excluded) const {
  return overdue_ || accused_.has(place) || dropped_by_.has(place) || excluded.contains(ranks_of(place));
}

NumberSet Agreement::called() const {
  NumberSet ranks;
  for (const auto& [rank, excludes] : calls_) ranks.add(rank);
  for (const auto& [place, report] : reports_)
    if (place != self_) ranks |= report.called;
  return ranks;
}

NumberSet Agreement::excluded() const {
  NumberSet ranks;
  for (const auto& [rank, excludes] : calls_) ranks |= excludes;
  for (const auto& [place, report] : reports_)
    if (place != self_) ranks |= report.excluded;
  return ranks;
}

/// Takes over the newest proposal of an earlier leader if anybody knows that all its members have joined. A proposal of
/// this process itself has not been decided, or the round were over.
bool Agreement::adopt_committed() {
  std::uint64_t newest = 0;
  for (const auto& [place, report] : reports_) newest = std::max(newest, report.number);
  for (const auto& [place, report] : reports_)
    if (!adopted_ && report.number == newest && report.stage == ShrinkStage::kCommitted && leader_of(newest) != self_)
      adopted_ = report.proposal;
  if (!adopted_) return false;
  proposal_ = *adopted_;
  enter(ShrinkStage::kCommitted);
  return true;
}

bool Agreement::propose() {
  NumberSet awaited;
  for (const auto& [place, report] : reports_) awaited |= report.awaited;
  const NumberSet gone = excluded() | left_out_;
  const NumberSet all = called();
  if (all.empty() || (!overdue_ && !gone.contains(awaited))) return false;
  proposal_ = {};
  proposal_.members = all - gone;
  if (proposal_.members.empty()) {  // they exclude each other
    enter(ShrinkStage::kCommitted);
    return true;
  }
  if (!id_) {
    if (!std::exchange(id_is_due_, true)) actions_.push_back(MakeId{number_});
    return false;
  }
  proposal_.id = *id_;
  enter(ShrinkStage::kBuilding);
  return true;
}

bool Agreement::judge_builds() {
  for (const auto& [place, report] : reports_) {
    if (report.number != number_ || report.stage != ShrinkStage::kFailed) continue;
    if (!explains_more(report.failure, proposal_.code)) continue;
    proposal_.code = report.failure;
    proposal_.text = report.text;
  }
  enter(ShrinkStage::kCommitted);
  return true;
}

void Agreement::end(const Proposal& proposal) {
  ShrinkOrder decided = order();
  decided.stage = ShrinkStage::kDecided;
  for (std::size_t place = 0; place < layout_->size(); ++place)
    if (place != self_) actions_.push_back(SendOrder{place, decided});
  finish(Proposal(proposal));
}

}  // namespace tutti

#include "collectives/choice/plan_cache.h"

#include <algorithm>
#include <utility>

#include "collectives/steps_together.h"
#include "core/log.h"

namespace tutti {
namespace {

bool moves_whole_blocks(const Schedule& schedule) {
  if (schedule.shape.lanes != 1 || schedule.extent.parts != 1) return false;
  return std::all_of(schedule.steps.begin(), schedule.steps.end(), [](const Step& step) {
    const bool in_buffers = step.src_buffer != BufferId::kScratch && step.dst_buffer != BufferId::kScratch;
    return in_buffers && step.span.count == 1 && step.recv_from <= PeerSet::kAll;
  });
}

}  // namespace

Plan PlanCache::find_slowly(Collective collective, Bytes bytes, int root) {
  const Choice choice = this->choice(collective, bytes);
  bool& warned = warned_[static_cast<std::size_t>(collective)];
  if (choice.name_refused && !warned) {
    warned = true;
    log(LogLevel::kWarn, source_, "algorithm {} is not offered for {}; the automatic choice serves it", algorithm_,
        name_of(collective));
  }
  const Plan plan = plan_of(choice, bytes, root);
  recent_[place(collective, root)] = Recent{bytes, root, plan};
  return plan;
}

Choice PlanCache::choice(Collective collective, Bytes bytes) const {
  const bool automatic = algorithm_.empty() || algorithm_ == "auto";
  if (!automatic) {
    const Choice named = choose(collective, bytes, machine(), algorithm_, tile_, hosts());
    if (!named.name_refused) return named;
  }
  const Algorithm* const algorithm = automatic_->find(collective, bytes);
  Choice choice;
  if (algorithm != nullptr) choice = choose(collective, bytes, machine(), *algorithm, tile_, hosts());
  choice.name_refused = !automatic;
  return choice;
}

Plan PlanCache::find_in_rank_order(Collective collective, Bytes bytes, int root) {
  Machine ordered = machine();
  ordered.deterministic = true;
  return plan_of(choose(collective, bytes, ordered, algorithm_, tile_, hosts()), bytes, root);
}

Plan PlanCache::plan_of(const Choice& choice, Bytes bytes, int root) {
  std::unique_ptr<const PlannedSchedule>& planned = schedules_[Key{choice.algorithm, root, choice.lanes}];
  if (planned == nullptr) {
    Shape shape;
    shape.ranks = machine().ranks;
    shape.rank = rank_.value;
    shape.root = root < 0 ? 0 : root;
    shape.lanes = choice.lanes;
    shape.hosts = hosts();
    Schedule built = build_schedule(*choice.algorithm, shape);
    mark_what_runs_together(&built);
    const bool whole = moves_whole_blocks(built);
    planned = std::make_unique<const PlannedSchedule>(PlannedSchedule{std::move(built), whole});
  }
  return Plan{&planned->schedule, choice.tile_bytes, planned->moves_whole_blocks && bytes <= choice.tile_bytes};
}

std::uint64_t PlanCache::bytes() const {
  std::uint64_t total = 0;
  for (const auto& [key, planned] : schedules_) total += planned->schedule.steps.capacity() * sizeof(Step);
  return total;
}

}  // namespace tutti

#include "schedule/schedule.h"

#include <algorithm>

#include "schedule/peer_list.h"

namespace tutti {

Schedule build_schedule(const Algorithm& algorithm, const Shape& shape) {
  Schedule schedule;
  schedule.algorithm = &algorithm;
  schedule.shape = shape;
  schedule.extent = algorithm.extent(shape);
  schedule.steps_per_lane = algorithm.steps(shape);
  const auto lanes = static_cast<std::uint32_t>(shape.lanes);
  schedule.steps.reserve(std::size_t{lanes} * schedule.steps_per_lane);
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    for (std::uint32_t i = 0; i < schedule.steps_per_lane; ++i) {
      schedule.steps.push_back(algorithm.step(shape, lane, i));
      schedule.largest_set = std::max(schedule.largest_set, senders_of(shape, schedule.steps.back()).count);
    }
  }
  const std::span<const Step> last = lanes == 0 ? std::span<const Step>{} : schedule.lane(lanes - 1);
  while (schedule.asides_per_lane < last.size() && last[last.size() - 1 - schedule.asides_per_lane].is(kAside))
    ++schedule.asides_per_lane;
  return schedule;
}

bool renumber_peers(std::span<const std::int32_t> members, Schedule* schedule) {
  const auto named = [](PeerSet set) { return set == PeerSet::kNone || set == PeerSet::kOne; };
  const bool all_named = std::all_of(schedule->steps.begin(), schedule->steps.end(),
                                     [&](const Step& step) { return named(step.recv_from) && named(step.send_to); });
  if (!all_named) return false;
  for (Step& step : schedule->steps) {
    if (step.recv_from == PeerSet::kOne) step.recv_peer = members[static_cast<std::size_t>(step.recv_peer)];
    if (step.send_to == PeerSet::kOne) step.send_peer = members[static_cast<std::size_t>(step.send_peer)];
  }
  return true;
}

}  // namespace tutti

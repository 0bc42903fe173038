// A schedule: a generator written out for one rank, ready to run. Built once, then cached by the communicator.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/generator.h"

namespace tutti {

struct Schedule {
  const Algorithm* algorithm = nullptr;
  Shape shape;
  Extent extent;
  std::uint32_t steps_per_lane = 0;
  std::uint32_t asides_per_lane = 0;  ///< the last of them, which may run at any time: kAside
  std::int32_t largest_set = 0;  ///< of steps that receive from a set: its ranks, this one included; 0 if none does
  std::vector<Step> steps;       ///< lane-major: lane l owns [l * steps_per_lane, (l + 1) * steps_per_lane)

  std::span<const Step> lane(std::uint32_t l) const {
    return std::span<const Step>(steps).subspan(std::size_t{l} * steps_per_lane, steps_per_lane);
  }
};

/// Writes the generator out. Allocates; not for the hot path.
Schedule build_schedule(const Algorithm& algorithm, const Shape& shape);

/// Makes it a schedule of some of a larger number of ranks: peer i becomes members[i], the shape stays that of these
/// ranks alone. Returns false, and changes nothing, if a step has a set of peers, which would be others there.
bool renumber_peers(std::span<const std::int32_t> members, Schedule* schedule);

}  // namespace tutti

#include "schedule/schedule.h"

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
    }
  }
  const std::span<const Step> last = lanes == 0 ? std::span<const Step>{} : schedule.lane(lanes - 1);
  while (schedule.asides_per_lane < last.size() && last[last.size() - 1 - schedule.asides_per_lane].is(kAside))
    ++schedule.asides_per_lane;
  return schedule;
}

}  // namespace tutti

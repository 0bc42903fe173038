// A program: the schedules of all ranks, as the prover sees them.
#pragma once

#include <cstdint>
#include <span>

#include "schedule/schedule.h"

namespace tutti {

/// Either schedules written out, or a generator that is asked for each step anew: then no table is ever held. A view;
/// what it was made of must live longer.
class Program {
 public:
  /// `shape.rank` is ignored.
  Program(const Algorithm& algorithm, const Shape& shape) : algorithm_(&algorithm), shape_(shape) {}
  /// One schedule a rank, in rank order, all of one collective and of equal ranks, root and lanes.
  explicit Program(std::span<const Schedule> schedules)
      : algorithm_(schedules.front().algorithm), shape_(schedules.front().shape), schedules_(schedules) {}

  Collective collective() const { return algorithm_->collective; }
  std::int32_t ranks() const { return shape_.ranks; }
  std::int32_t root() const { return shape_.root; }
  std::uint32_t lanes() const { return static_cast<std::uint32_t>(shape_.lanes); }

  Shape at(std::int32_t rank) const { return Shape{shape_.ranks, rank, shape_.root, shape_.lanes, shape_.hosts}; }
  Extent extent(std::int32_t rank) const {
    return schedules_.empty() ? algorithm_->extent(at(rank)) : schedules_[static_cast<std::size_t>(rank)].extent;
  }
  std::uint32_t steps(std::int32_t rank) const {
    return schedules_.empty() ? algorithm_->steps(at(rank)) : schedules_[static_cast<std::size_t>(rank)].steps_per_lane;
  }
  Step step(std::int32_t rank, std::uint32_t lane, std::uint32_t i) const {
    return schedules_.empty() ? algorithm_->step(at(rank), lane, i)
                              : schedules_[static_cast<std::size_t>(rank)].lane(lane)[i];
  }

 private:
  const Algorithm* algorithm_;
  Shape shape_;
  std::span<const Schedule> schedules_;
};

}  // namespace tutti

// Tables of all ranks, to be spoilt or written by hand, and what the prover says of them.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/choice/catalogue.h"
#include "schedule/prover.h"

namespace tutti {

using Tables = std::vector<Schedule>;

inline Tables tables_of(const Algorithm& algorithm, Shape shape) {
  Tables tables;
  for (shape.rank = 0; shape.rank < shape.ranks; ++shape.rank) tables.push_back(build_schedule(algorithm, shape));
  return tables;
}
inline Tables tables_of(Collective collective, const char* name, const Shape& shape) {
  return tables_of(*find_algorithm(collective, name), shape);
}

/// Those that are not made for hosts of several ranks; hierarchical_proof_test.cc proves the others.
inline std::vector<Algorithm> flat_algorithms() {
  std::vector<Algorithm> flat;
  for (const Algorithm& algorithm : catalogue()) {
    if (!algorithm.hierarchical) flat.push_back(algorithm);
  }
  return flat;
}

inline std::optional<Fault> fault_in(const Tables& tables, const ProofOptions& options = {}) {
  return Prover().find_fault(Program(tables), options);
}

/// The plain program has no fault, the changed one has this.
inline Fault expect_fault(Tables tables, Check check, const std::function<void(Tables&)>& plant,
                          const ProofOptions& options = {}) {
  EXPECT_FALSE(fault_in(tables, options));
  plant(tables);
  const auto fault = fault_in(tables, options);
  EXPECT_TRUE(fault) << "the fault was not seen";
  if (!fault) return Fault{};
  EXPECT_EQ(name_of(fault->check), std::string(name_of(check))) << fault->text;
  return *fault;
}

inline void erase_step(Schedule& schedule, std::size_t step) {
  schedule.steps.erase(schedule.steps.begin() + static_cast<std::ptrdiff_t>(step));
  --schedule.steps_per_lane;
}
/// Behind all those that have an order. One lane.
inline void append_step(Schedule& schedule, const Step& step) {
  schedule.steps.insert(schedule.steps.end() - schedule.asides_per_lane, step);
  ++schedule.steps_per_lane;
}

/// Schedules written by hand: one step after the other, each for the rank named with it. One lane, one part, one
/// scratch chunk.
inline Tables tables_by_hand(Collective collective, std::int32_t ranks,
                             std::initializer_list<std::pair<std::int32_t, Step>> steps) {
  Tables tables = tables_of(collective, "all_pairs", Shape{ranks, 0, 0, 1});
  for (Schedule& schedule : tables) {
    schedule.steps.clear();
    schedule.steps_per_lane = 0;
    schedule.extent.scratch_chunks = 1;
  }
  for (const auto& [rank, step] : steps) append_step(tables[static_cast<std::size_t>(rank)], step);
  return tables;
}

}  // namespace tutti

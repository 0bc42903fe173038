// SymbolicMemory: the prover's memory. One cell a chunk of each rank's input, output and scratch; in place, two names
// share cells.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/contribution.h"
#include "schedule/program.h"

namespace tutti {

/// Which ranks call in place. kMixed: the odd ones.
enum class Aliasing : std::uint8_t { kNone, kAll, kMixed };

/// Where a step wants to read or write.
struct Access {
  std::int32_t rank;
  std::uint32_t lane;
  BufferId buffer;
  std::uint32_t chunk;
};

/// Holds what was stored, and who touched it: a strand (a lane of a rank) that touches what another strand of the rank
/// writes has no order with it. Problems are returned as a text, nullptr meaning none. One thread.
class SymbolicMemory {
 public:
  explicit SymbolicMemory(ContributionPool& values) : values_(values) {}

  /// Empties outputs and scratch, fills the inputs that the collective has.
  void reset(const Program& program, Aliasing aliasing);

  /// The caller gets a reference to the value.
  const char* read(const Access& access, ValueId* value);
  /// The cell takes its own reference.
  const char* write(const Access& access, ValueId value);
  /// The stored value of an output chunk, or kNoValue; no reference, not counted as an access.
  ValueId stored(std::int32_t rank, std::uint32_t chunk) const;

  /// Index of the cell, or kNowhere where the rank has no such chunk. Names of one memory have one index.
  std::size_t locate(std::int32_t rank, BufferId buffer, std::uint32_t chunk) const;
  std::size_t size() const { return cells_.size(); }
  static constexpr std::size_t kNowhere = ~std::size_t{0};

  std::uint32_t parts() const { return parts_; }
  /// Chunks of the result, which steps may name: those of the larger of input and output, or of an all-to-all the
  /// inputs of all ranks.
  std::uint32_t chunks() const;

 private:
  static constexpr ValueId kInitial = kNoValue - 1;  ///< the rank's own input, made into a value when it is read

  bool in_place(std::int32_t rank) const;
  bool has_input(std::int32_t rank) const;
  bool has_output(std::int32_t rank) const;
  bool gathers() const;   ///< one block in, a block a rank out
  bool scatters() const;  ///< a block a rank in, one block out
  std::uint32_t chunk_of_result(const Access& access) const;
  const char* touch(std::size_t cell, std::uint32_t lane, bool write);

  ContributionPool& values_;
  Collective collective_ = Collective::kNone;
  Aliasing aliasing_ = Aliasing::kNone;
  std::int32_t root_ = 0;
  std::uint32_t parts_ = 1;
  std::uint32_t inputs_ = 0;  ///< chunks of a rank's input
  std::uint32_t outputs_ = 0;
  std::vector<std::uint32_t> scratch_;  ///< chunks of each rank's scratch
  std::size_t stride_ = 0;              ///< cells a rank
  bool watch_lanes_ = false;
  std::vector<ValueId> cells_;
  std::vector<std::uint32_t> touched_;  ///< who touched a cell; only with several lanes
};

}  // namespace tutti

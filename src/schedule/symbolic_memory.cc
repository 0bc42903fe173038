#include "schedule/symbolic_memory.h"

#include <algorithm>

namespace tutti {
namespace {

// A cell's history: the lane that touched it (plus one), whether others did too, whether any wrote.
constexpr std::uint32_t kLaneMask = 0xffff;
constexpr std::uint32_t kSeveral = 1u << 30;
constexpr std::uint32_t kWritten = 1u << 31;

/// Whether any rank has steps that may run at any time, which then are as a lane of their own.
bool has_asides(const Program& program) {
  for (std::int32_t rank = 0; rank < program.ranks(); ++rank) {
    const std::uint32_t steps = program.steps(rank);
    if (steps != 0 && program.step(rank, 0, steps - 1).is(kAside)) return true;
  }
  return false;
}

}  // namespace

void SymbolicMemory::reset(const Program& program, Aliasing aliasing) {
  const Extent extent = program.extent(0);
  collective_ = program.collective();
  aliasing_ = aliasing;
  root_ = program.root();
  parts_ = extent.parts;
  inputs_ = extent.input_blocks * parts_;
  outputs_ = extent.output_blocks * parts_;
  scratch_.resize(static_cast<std::size_t>(program.ranks()));
  std::uint32_t most = 0;
  for (std::int32_t rank = 0; rank < program.ranks(); ++rank) {
    scratch_[static_cast<std::size_t>(rank)] = program.extent(rank).scratch_chunks;
    most = std::max(most, scratch_[static_cast<std::size_t>(rank)]);
  }
  stride_ = std::size_t{inputs_} + outputs_ + most;
  watch_lanes_ = program.lanes() > 1 || has_asides(program);
  const std::size_t cells = stride_ * static_cast<std::size_t>(program.ranks());
  cells_.assign(cells, kNoValue);
  touched_.assign(watch_lanes_ ? cells : 0, 0);
  for (std::int32_t rank = 0; rank < program.ranks(); ++rank) {
    if (!has_input(rank)) continue;
    for (std::uint32_t chunk = 0; chunk < inputs_; ++chunk) cells_[locate(rank, BufferId::kInput, chunk)] = kInitial;
  }
}

bool SymbolicMemory::in_place(std::int32_t rank) const {
  return aliasing_ == Aliasing::kAll || (aliasing_ == Aliasing::kMixed && rank % 2 == 1);
}

bool SymbolicMemory::has_input(std::int32_t rank) const { return tutti::has_input(collective_, rank == root_); }

bool SymbolicMemory::has_output(std::int32_t rank) const { return tutti::has_output(collective_, rank == root_); }

bool SymbolicMemory::gathers() const {
  const CollectiveTraits& traits = traits_of(collective_);
  return traits.input == BlockCount::kOne && traits.output == BlockCount::kRanks;
}

bool SymbolicMemory::scatters() const {
  const CollectiveTraits& traits = traits_of(collective_);
  return traits.input == BlockCount::kRanks && traits.output == BlockCount::kOne;
}

std::size_t SymbolicMemory::locate(std::int32_t rank, BufferId buffer, std::uint32_t chunk) const {
  const std::size_t base = stride_ * static_cast<std::size_t>(rank);
  const std::uint32_t own = static_cast<std::uint32_t>(rank) * parts_;  // the rank's own block of a blocked buffer
  const bool shared = in_place(rank) && has_input(rank) && has_output(rank);
  switch (buffer) {
    case BufferId::kInput:
      if (chunk >= inputs_ || !has_input(rank)) return kNowhere;
      if (!shared || scatters()) return base + chunk;
      return base + inputs_ + chunk + (gathers() ? own : 0);
    case BufferId::kOutput:
      if (chunk >= outputs_ || !has_output(rank)) return kNowhere;
      return shared && scatters() ? base + own + chunk : base + inputs_ + chunk;
    case BufferId::kScratch:
      if (chunk >= scratch_[static_cast<std::size_t>(rank)]) return kNowhere;
      return base + inputs_ + outputs_ + chunk;
    default:
      return kNowhere;
  }
}

const char* SymbolicMemory::touch(std::size_t cell, std::uint32_t lane, bool write) {
  if (!watch_lanes_) return nullptr;
  std::uint32_t& history = touched_[cell];
  const bool others = history != 0 && ((history & kSeveral) != 0 || (history & kLaneMask) != lane + 1);
  if (others && (write || (history & kWritten) != 0))
    return "another lane touches this chunk, and one of the two writes";
  if (history == 0) history = lane + 1;
  if (others) history |= kSeveral;
  if (write) history |= kWritten;
  return nullptr;
}

const char* SymbolicMemory::read(const Access& access, ValueId* value) {
  const std::size_t cell = locate(access.rank, access.buffer, access.chunk);
  if (cell == kNowhere) return "reads a chunk that this rank does not have";
  if (const char* race = touch(cell, access.lane, false)) return race;
  if (cells_[cell] == kNoValue) return "reads a chunk that was never written";
  if (cells_[cell] != kInitial) {
    values_.retain(*value = cells_[cell]);
    return nullptr;
  }
  *value = values_.leaf(access.rank, chunk_of_result(access));
  return nullptr;
}

/// The chunk of the result that an input is for: a gathering rank's one block becomes its own block of the result; in
/// place, a scattered result's one block is the own block of the input; the blocks of all ranks' inputs to an
/// all-to-all follow one another.
std::uint32_t SymbolicMemory::chunk_of_result(const Access& access) const {
  const auto rank = static_cast<std::uint32_t>(access.rank);
  if (collective_ == Collective::kAllToAll) return rank * inputs_ + access.chunk;
  const bool own_block =
      (gathers() && access.buffer == BufferId::kInput) || (scatters() && access.buffer == BufferId::kOutput);
  return own_block ? rank * parts_ + access.chunk : access.chunk;
}

const char* SymbolicMemory::write(const Access& access, ValueId value) {
  if (access.buffer == BufferId::kInput) return "stores into the input";
  const std::size_t cell = locate(access.rank, access.buffer, access.chunk);
  if (cell == kNowhere) return "stores into a chunk that this rank does not have";
  if (const char* race = touch(cell, access.lane, true)) return race;
  values_.retain(value);
  if (cells_[cell] != kNoValue && cells_[cell] != kInitial) values_.release(cells_[cell]);
  cells_[cell] = value;
  return nullptr;
}

std::uint32_t SymbolicMemory::chunks() const {
  return collective_ == Collective::kAllToAll ? inputs_ * (outputs_ / parts_) : std::max(inputs_, outputs_);
}

ValueId SymbolicMemory::stored(std::int32_t rank, std::uint32_t chunk) const {
  const std::size_t cell = locate(rank, BufferId::kOutput, chunk);
  return cell == kNowhere || cells_[cell] == kInitial ? kNoValue : cells_[cell];
}

}  // namespace tutti

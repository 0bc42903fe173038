// One rank of a library in a comparison: what each library's file provides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "stage.h"

namespace tutti::peers {

/// A rank's place in its group.
class Seat {
 public:
  Seat(Stage* stage, int group, int rank) : stage_(stage), group_(&stage->groups[group]), rank_(rank) {}

  int rank() const { return rank_; }
  int ranks() const { return stage_->ranks; }
  bool is_pinned() const { return stage_->pinned; }
  const Stage& stage() const { return *stage_; }
  Group& group() const { return *group_; }

  /// Collective: returns when all ranks of the group are here. Spins and yields, or sleeps. A rank that never comes is
  /// the leader's to notice, who ends all.
  void meet(bool asleep = false) const;
  /// Collective, while joining: what each rank says, at most kMailBytes; false: this is longer.
  bool gather(const std::string& mine, std::vector<std::string>* all) const;

 private:
  Stage* stage_;
  Group* group_;
  int rank_;
};

inline constexpr std::uint32_t kOffersAll = (1U << race::kContestedCount) - 1;
constexpr std::uint32_t offer_of(race::Contested what) { return 1U << static_cast<unsigned>(what); }

struct Operation {
  race::Contested what;
  const float* in;
  float* out;
  std::size_t count;  ///< elements that one rank has for one other
  int root;
};

/// All functions are called on one thread. `text` says why something failed.
class Player {
 public:
  virtual ~Player() = default;
  virtual std::string name() const = 0;
  virtual std::uint32_t offers() const { return kOffersAll; }
  /// Whether a waiting rank keeps its core busy.
  virtual bool polls() const { return true; }
  /// Collective. A broadcast is in place, in `out`.
  virtual bool run(const Operation& operation, std::string* text) = 0;
  /// Collective: before the process ends.
  virtual void leave() {}
};

/// Collective: joins. nullptr: `text` says why not.
std::unique_ptr<Player> make_player(const Seat& seat, std::string* text);
/// Whether a rank gets a core of its own: not where it has several threads at work.
bool is_bound();
/// The rank that a launcher gave this process, or -1 where ranks are given by argument.
int launched_rank();

}  // namespace tutti::peers

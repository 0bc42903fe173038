// How ranks that have, or had, other members become one group: torch's contract of Backend::reconfigure.
//
// The first of the new members makes ids and puts them into the Store under the attempt's uuid; all join by them, and
// agree by a shrink that all have joined. So an attempt succeeds for all who live through it or for none, and a rank
// keeps what it had until it has succeeded.
#pragma once

#include <string>
#include <unordered_set>
#include <variant>
#include <vector>

#include "rendezvous.h"

namespace tutti_torch {

using Handles = std::variant<std::unordered_set<std::string>, std::vector<std::string>>;

/// Names one process group of one process, whatever its members are. In sorted order they are in that of `rank`.
std::string make_handle(int rank);

struct Attempt {
  std::int64_t uuid = 0;
  std::vector<std::string> members;  // handles, in the order of ranks
  int rank = 0;                      // the place of the own handle

  /// All of `others`, who must be somebody, are among the members.
  bool includes(const std::vector<std::string>& others) const;
};

/// Raises ValueError if this cannot be an attempt that the owner of `own` takes part in.
Attempt make_attempt(std::int64_t uuid, const Handles& handles, const std::string& own);

/// Blocks until all members are there, or request.join_timeout has passed. Rank and size are the attempt's.
Joined carry_out(const Attempt& attempt, const c10::intrusive_ptr<c10d::Store>& store, JoinRequest request);

}  // namespace tutti_torch

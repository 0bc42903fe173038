// What the ranks of a communicator do in an episode.
#pragma once

#include <tutti/tutti.h>

#include "cases/trial.h"
#include "chaos/caller.h"
#include "chaos/plan.h"

namespace tutti::chaos {

/// A rank of a communicator.
struct Place {
  tuttiComm_t comm = nullptr;
  int rank = 0;
  int ranks = 1;
};

/// Random calls, also in groups, on streams and on splits; whether all succeeded. `common`: the same on all ranks;
/// `own`: of this one.
bool work(Caller& caller, const Place& place, Chance common, Chance& own);
/// This call alone; whether it succeeded, with the right result.
bool call(Caller& caller, const Place& place, const cases::Case& one);

}  // namespace tutti::chaos

// Who is to blame for a wait: reading the call boards. Pure functions over a board reader, so that tests can stage any
// case.
#pragma once

#include <functional>
#include <string>

#include "core/call_board.h"
#include "core/fingerprint.h"
#include "core/units.h"
#include "executor/executor.h"

namespace tutti {

/// A peer's board, or nullptr where it cannot be read.
using BoardReader = std::function<const CallBoard*(Rank)>;

/// "all_reduce of 1000 float32, sum (operation 7)".
std::string describe(const Call& call);
/// "receive of 10 float32 from rank 2 (tag 3)".
std::string describe(const Transfer& transfer);

/// The lowest rank whose board shows another call at `mine.sequence`, and that call.
struct Disagreement {
  Rank rank = kNoRank;
  Call call;
};
Disagreement find_disagreement(const Call& mine, Rank self, int ranks, const BoardReader& board);
/// The oldest call, up to `mine` in number, in which `other` and this rank differ, as far back as both boards go; for a
/// message that was found in place of another. `*mine` becomes this rank's call of that number.
Disagreement find_first_disagreement(Call* mine, Rank other, const CallBoard& own, const BoardReader& board);
/// "rank 2 called broadcast ... where rank 0 called all_reduce ...".
std::string describe(const Disagreement& other, const Call& mine, Rank self);

/// Follows "waits for" from board to board, from `awaited` to the end of the chain: the rank that waits for nobody in
/// this operation. `what` says what is known of it.
struct Culprit {
  Rank rank = kNoRank;
  std::string what;
};
Culprit find_culprit(const Call& mine, Rank awaited, int ranks, const BoardReader& board);
/// The same for a wait in sends and receives, which have no common sequence.
Culprit find_silent_peer(Rank self, Rank awaited, int ranks, const BoardReader& board);

/// Whether the chain of ranks that wait for each other, followed from `awaited`, is a circle. Each board names one rank
/// of several that its writer waits for, so the rank that holds up all may stand on none.
bool waits_in_circle(Rank self, Rank awaited, int ranks, const BoardReader& board);

/// Like find_culprit(), for a wait of a kernel. A kernel sees no boards and names any one of the ranks that it waits
/// for. The culprit is the first rank that has not begun the call, if there is one.
Culprit find_absent(const Call& mine, Rank self, Rank awaited, int ranks, const BoardReader& board);

/// All ranks that have not begun `mine.sequence`: "ranks 1, 4 and 7". Of many the first 16, and how many more. Empty
/// if all have.
std::string missing_ranks(const Call& mine, Rank self, int ranks, const BoardReader& board);
/// "; not there: ranks 1, 4 and 7", to be put after what is said of the culprit. Empty if at most one rank is missing.
std::string others_missing(const Call& mine, Rank self, int ranks, const BoardReader& board);

}  // namespace tutti

// Finds out from the call boards who is to blame for a wait. These are pure functions over a board reader, so that
// tests can stage any case.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "core/call_board.h"
#include "core/clock.h"
#include "core/fingerprint.h"
#include "core/units.h"
#include "executor/executor.h"

namespace tutti {

/// Returns a peer's board, or nullptr if it cannot be read.
using BoardReader = std::function<const CallBoard*(Rank)>;

/// A process whose service thread lives answers a question at once, or after a while on a busy machine. One that owes
/// an answer for longer is taken to be stopped, and its ranks with it. Where the timeout leaves more time, it gets
/// more.
inline constexpr std::chrono::milliseconds kAnswerTime{500};

/// What one rank can see of all ranks of its communicator.
struct PeerView {
  Rank self;
  int ranks = 0;
  BoardReader board;
  /// For how long the process of a rank has owed an answer; zero if it owes none.
  std::function<Clock::duration(Rank)> unanswered;
  /// A process that owes an answer for longer counts as stopped.
  Clock::duration answer_time = kAnswerTime;

  bool answers(Rank rank) const { return unanswered(rank) <= answer_time; }
};

/// "all_reduce of 1000 float32, sum (operation 7)".
std::string describe(const Call& call);
/// "receive of 10 float32 from rank 2 (tag 3)".
std::string describe(const Transfer& transfer);

/// The lowest rank whose board shows another call at `mine.sequence`, and that call.
struct Disagreement {
  Rank rank = kNoRank;
  Call call;
};
Disagreement find_disagreement(const Call& mine, const PeerView& peers);
/// Finds the oldest call, up to the number of `mine`, in which `other` and this rank differ, as far back as both boards
/// go. It is for a message that was found in place of another. `*mine` becomes this rank's call of that number.
Disagreement find_first_disagreement(Call* mine, Rank other, const CallBoard& own, const BoardReader& board);
/// "rank 2 called broadcast ... where rank 0 called all_reduce ...".
std::string describe(const Disagreement& other, const Call& mine, Rank self);

/// The rank that holds up all others, and what is known of it.
struct Culprit {
  Rank rank = kNoRank;
  std::string what;
  /// False if it may be another rank, of which nothing was heard here.
  bool is_known = true;
};
/// Whoever has not finished this operation and has not answered for longest. If all answer: follows "waits for" from
/// board to board, from `awaited` to the end of the chain, a rank that has not called the operation. Each board names
/// one rank of several that its writer waits for, so a chain may be a circle, or end at a rank that is at work: then
/// the culprit is who has not come.
Culprit find_culprit(const Call& mine, Rank awaited, const PeerView& peers);
/// Like find_culprit(), for a wait in sends and receives, which have no common sequence.
Culprit find_silent_peer(Rank awaited, const PeerView& peers);

/// Whether the chain of ranks that wait for each other, followed from `awaited`, is a circle. Each board names one of
/// perhaps several ranks that its writer waits for, so no board may name the rank that holds up all.
bool waits_in_circle(Rank awaited, const PeerView& peers);

/// Like find_culprit(), for a wait of a kernel. A kernel sees no boards and names any one of the ranks that it waits
/// for. The culprit is the first rank that has not begun the call, if there is one.
Culprit find_absent(const Call& mine, Rank awaited, const PeerView& peers);

/// All ranks that are known to have not begun `mine.sequence`: "ranks 1, 4 and 7". If they are many, it names the first
/// 16 and says how many more there are. It is empty if there are none.
std::string missing_ranks(const Call& mine, const PeerView& peers);
/// "; not there: ranks 1, 4 and 7", to be put after the text about the culprit. It is empty if at most one rank is
/// missing.
std::string others_missing(const Call& mine, const PeerView& peers);

}  // namespace tutti

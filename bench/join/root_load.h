// The process that serves an id, and what the joins of many ranks cost it. Its code is the library's; the ranks are
// played by few processes, each of which has thousands of connections and says what ranks say: that it joins, and, as
// soon as it has heard where the table comes from, that it is ready.
#pragma once

namespace tutti::bench {

/// Seconds since the first dial, and the root's processor time in them.
struct RootMark {
  double seconds = 0;
  double processor = 0;
};

struct RootLoad {
  RootMark joined;        ///< all ranks have heard where the table comes from
  RootMark let_go;        ///< all ranks have heard that all are ready
  RootMark ended;         ///< all connections have ended
  double heap_bytes = 0;  ///< of the root, when all had joined
  int dropped = 0;        ///< times that the root dropped a rank, which then dialled again
  bool failed = false;
};

/// The calling process becomes the root: it must not have used the library yet, and has no other threads. Blocks until
/// the players have ended.
RootLoad measure_root(int ranks, int players, bool tcp);

}  // namespace tutti::bench

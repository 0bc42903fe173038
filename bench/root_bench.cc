// Measures what the joins of many ranks cost the process that serves their id (root_load.h).
//
//   root_bench RANKS [PLAYERS] [unix | tcp]    4 processes play the ranks, over unix sockets, unless given
//
// It prints the time from the first dial until all ranks have joined, until all have been let go and until all
// connections have ended, the root's processor time in these, and its memory for each rank when all have joined.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "join/root_load.h"

int main(int count, char** arguments) {
  const int ranks = count > 1 ? std::atoi(arguments[1]) : 0;
  const int players = count > 2 ? std::atoi(arguments[2]) : 4;
  const std::string by = count > 3 ? arguments[3] : "unix";
  if (players < 1 || players > 200 || ranks < players || (by != "unix" && by != "tcp")) {
    std::fprintf(stderr, "usage: %s RANKS [PLAYERS] [unix | tcp]\n", arguments[0]);
    return 2;
  }
  const tutti::bench::RootLoad load = tutti::bench::measure_root(ranks, players, by == "tcp");
  std::printf(
      "%6d ranks: joined %7.3f s, let go %7.3f s; dropped %d times; processor of the root %7.3f s, %7.3f s, "
      "at the end %7.3f s; heap of the root %.0f bytes a rank%s\n",
      ranks, load.joined.seconds, load.let_go.seconds, load.dropped, load.joined.processor, load.let_go.processor,
      load.ended.processor, load.heap_bytes / ranks, load.failed ? ", FAILED" : "");
  return load.failed ? 1 : 0;
}

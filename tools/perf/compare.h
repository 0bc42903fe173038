// tutti-perf --compare: Tutti against other libraries, each with processes of its own, paired.
//
// Method. A pair is a block of operations of Tutti and one of a peer, right after each other; who is first changes.
// While a block runs nobody else does: the other processes sleep. Before, between and after the two a cache line goes
// to and fro between the first two cores to tell how far apart they are, which alone changes times by 2 to 3; pairs are
// kept by that state, and ratios are taken pair by pair. Time runs from the first rank's beginning to the last one's
// end; roots take turns. Sizes are swept in rounds, so that each of them meets the machine in all its moods.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "call.h"
#include "options.h"
#include "race/tally.h"

namespace tutti::perf {

struct ComparedPeer {
  std::string name;
  std::string product;  ///< the library as it calls itself
  race::Tally tally;    ///< by Row::bytes()
};

struct Comparison {
  Options options;
  int ranks = 0;
  bool pinned = false;  ///< a core for each rank
  std::vector<Row> rows;
  std::string tutti;  ///< as it calls itself
  std::vector<ComparedPeer> peers;
  std::vector<std::string> left_out;         ///< who is not compared, and why
  std::map<std::size_t, std::size_t> wrong;  ///< elements of Tutti's, by Row::bytes()

  std::size_t all_wrong() const;
};

/// Runs it; the exit code, with the reason told. `rows`: float sums.
int compare(const Options& options, int ranks, const std::vector<Row>& rows);

}  // namespace tutti::perf

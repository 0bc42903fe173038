// tutti-perf --compare measures Tutti against other libraries, in pairs. Each library has processes of its own.
//
// Method. A pair is a block of operations of Tutti and one of a peer, right after each other; who is first changes.
// While a block runs, the processes of all other libraries sleep. Before, between and after the two blocks a cache line
// goes to and fro between the first two cores, which shows how far apart they are: that alone changes times by a factor
// of 2 to 3. So pairs are kept apart by that state, and ratios are taken pair by pair. Time runs from the first rank's
// beginning to the last one's end; roots take turns. Sizes are swept in rounds, so that each size meets the machine in
// all its states.
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
  std::string product;  ///< what the library calls itself
  race::Tally tally;    ///< by Row::bytes()
};

struct Comparison {
  Options options;
  int ranks = 0;
  bool pinned = false;  ///< each rank has a core of its own
  std::vector<Row> rows;
  std::string tutti;  ///< what Tutti calls itself
  std::vector<ComparedPeer> peers;
  std::vector<std::string> left_out;         ///< who is not compared, and why
  std::map<std::size_t, std::size_t> wrong;  ///< how many of Tutti's elements are wrong, by Row::bytes()

  std::size_t all_wrong() const;
};

/// Runs the comparison and returns the exit code; a failure is reported on stderr. `rows` are float sums.
int compare(const Options& options, int ranks, const std::vector<Row>& rows);

}  // namespace tutti::perf

// Paired measurements by size and state of the cores: medians, table and JSON.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "state.h"

namespace tutti::race {

/// One pair of blocks that ran in turn; seconds an operation.
struct Pair {
  double tutti = 0, other = 0;
};

/// Microseconds an operation; the ratio is Tutti's time over the other's, pair by pair.
struct Medians {
  std::size_t pairs = 0;
  double tutti_us = 0, other_us = 0, ratio = 0, ratio_low = 0, ratio_high = 0;  ///< low, high: the ratio's quartiles
};
Medians medians_of(const std::vector<Pair>& pairs);

struct Setup {
  std::string collective = "all_reduce";
  int ranks = 2;
  bool in_place = false;
  bool isolated = false;          ///< all ranks began each operation together
  std::string transport = "shm";  ///< Tutti's
  std::string other;              ///< whom Tutti raced: the MPI library, as it names itself, or the memory
};

class Tally {
 public:
  void add(std::size_t bytes, State state, Pair pair) { pairs_[bytes][state].push_back(pair); }
  void add_wrong(std::size_t bytes, std::size_t wrong) { wrong_[bytes] += wrong; }
  std::size_t wrong() const;
  /// What was measured of a size in a state; maybe nothing.
  const std::vector<Pair>& pairs(std::size_t bytes, State state) const;
  std::size_t wrong(std::size_t bytes) const;

  void print(const Setup& setup) const;
  std::string json(const Setup& setup) const;

 private:
  std::map<std::size_t, std::map<State, std::vector<Pair>>> pairs_;
  std::map<std::size_t, std::size_t> wrong_;
};

}  // namespace tutti::race

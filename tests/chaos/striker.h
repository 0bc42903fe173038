// The faults that a process of a round does to itself.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include "chaos/board.h"
#include "chaos/plan.h"

namespace tutti::chaos {

/// A thread of its own, so that a fault comes in the middle of a call.
class Striker {
 public:
  Striker(const Plan& plan, Board& board, int process);
  /// What has not begun stays undone; a shortage ends.
  ~Striker();
  Striker(const Striker&) = delete;
  Striker& operator=(const Striker&) = delete;

  /// The first member of the process begins its call of that number.
  void at_call(int call);

 private:
  void main();
  void strike(const Strike& strike);
  void lack(const Strike& strike);

  Board& board_;
  const int process_;
  const std::vector<Strike> strikes_;
  std::atomic<int> call_{-1};  ///< the newest; written by the member's thread, waited for by this one
  std::thread thread_;
};

}  // namespace tutti::chaos

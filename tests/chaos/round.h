// A round of chaos: the conductor of its processes.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>

#include "chaos/board.h"
#include "chaos/plan.h"

namespace tutti::chaos {

/// Its process has no other thread, and does not use the library.
class Round {
 public:
  Round(const Plan& plan, Board& board, std::chrono::seconds limit) : plan_(plan), board_(board), limit_(limit) {}
  /// Until all processes have ended. What is wrong is complained of on the board.
  void run();

 private:
  using Clock = std::chrono::steady_clock;
  struct Process {
    int number = 0;
    bool is_stopped = false;
    Clock::time_point resumes;
  };
  template <class Main>
  void start(int number, const Main& main);
  void start_first(int process);
  void start_newcomers();
  void look_at_changes();
  void resume();
  void note_end(int number, int status);
  void end_all();

  const Plan& plan_;
  Board& board_;
  const std::chrono::seconds limit_;
  std::map<pid_t, Process> processes_;
  int newcomers_ = 0;  ///< that have been started
};

}  // namespace tutti::chaos

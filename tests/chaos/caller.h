// How a member calls the library, and judges what it returns.
#pragma once

#include <tutti/tutti.h>

#include <string>

#include "chaos/board.h"
#include "chaos/plan.h"
#include "chaos/striker.h"
#include "shortage/shortage.h"

namespace tutti::chaos {

class Caller {
 public:
  /// The first member of a process tells `striker` of each call that it makes. The others have none (NULL).
  Caller(const Plan& plan, Board& board, int team, int member, Striker* striker)
      : plan_(plan), board_(board), team_(team), member_(member), striker_(striker), post_(board.posts[team][member]) {
    test::spare_this_thread(true);
  }

  const Plan& plan() const { return plan_; }
  Board& board() const { return board_; }
  int team() const { return team_; }
  int member() const { return member_; }

  /// Makes a call, which alone may lack what is short: the thread's own memory is never. False: it has failed, and its
  /// error has been judged. `comm`: of which the error is, or NULL.
  template <class Call>
  bool make(const std::string& what, tuttiComm_t comm, const Call& call) {
    begin(what);
    test::spare_this_thread(false);
    result_ = call();
    test::spare_this_thread(true);
    ++board_.calls;
    if (result_ == tuttiSuccess) return true;
    text_ = tuttiGetLastError(comm);
    judge(what);
    return false;
  }
  /// Of the last call that failed.
  tuttiResult_t result() const { return result_; }
  const std::string& error() const { return text_; }
  bool was_left_out() const { return text_.find("left out by a shrink") != std::string::npos; }
  /// The text is of this member.
  void complain(const std::string& what) const;

 private:
  void begin(const std::string& what);
  void judge(const std::string& what);
  bool is_justified() const;

  const Plan& plan_;
  Board& board_;
  const int team_;
  const int member_;
  Striker* const striker_;
  Post& post_;
  int calls_ = 0;
  tuttiResult_t result_ = tuttiSuccess;
  std::string text_;
};

}  // namespace tutti::chaos

// The ranks of one library: processes that carry out orders together, and end with this object.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "peers/stage.h"

namespace tutti::perf {

/// What all ranks' reports say together.
struct Figures {
  double seconds = 0;       ///< of an operation, from the first rank's beginning to the last one's end
  std::uint64_t wrong = 0;  ///< wrong elements of all ranks
  bool disturbed = false;   ///< whether any rank was disturbed
};

/// For one thread. Waits sleep. They end at a deadline, or when a process of the library ends; then `text` names it.
class Troupe {
 public:
  /// Borrows `stage`. An order may take as long as `wait`.
  Troupe(std::string name, peers::OwnStage* stage, int group, std::chrono::milliseconds wait);
  ~Troupe();
  Troupe(const Troupe&) = delete;
  Troupe& operator=(const Troupe&) = delete;

  /// Starts the processes and waits until they have joined. For `command` see command_of(); if `launched`, one command
  /// starts all ranks.
  bool start(const std::vector<std::string>& command, bool launched, std::string* text);
  /// Makes the ranks carry out an order. If that fails, `text` contains `meaning`, which says what they were doing.
  bool give(const peers::Order& order, const std::string& meaning, Figures* figures, std::string* text);
  /// Lets the processes go and waits for them.
  bool leave(std::string* text);

  bool offers(race::Contested what) const;
  std::string library() const { return group().name; }

 private:
  peers::Group& group() const { return (*stage_)->groups[group_]; }
  pid_t fork_one(std::vector<std::string> command, int rank);
  bool wait_for_all(const std::string& meaning, std::string* text, std::chrono::milliseconds more = {});
  bool has_lost_one(const std::string& meaning, std::string* text);
  bool is_good(const std::string& meaning, std::string* text) const;
  pid_t process_of(int rank) const;
  std::string rank_text(int rank) const;
  std::string stopped_ranks() const;
  std::string who_is_left() const;
  void watch();
  bool reap(std::chrono::milliseconds wait);
  void end_all();
  std::string last_words() const;

  const std::string name_;
  peers::OwnStage* const stage_;
  const int group_;
  const std::chrono::milliseconds wait_;
  bool launched_ = false;
  std::uint32_t orders_ = 0;
  double operation_seconds_ = 0;  ///< how long an operation took in the last block
  std::vector<pid_t> started_;    ///< children that were not waited for yet; -1 for one that was
  std::vector<int> watched_;      ///< a pidfd for each rank, once they have joined
  int output_ = -1;               ///< memory for what the processes print
};

}  // namespace tutti::perf

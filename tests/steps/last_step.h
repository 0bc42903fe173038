// What a process does at the k-th message that it sends: the program's functions stand in front of the system's.
#pragma once

namespace tutti::test {

enum class LastStep {
  kNone,
  kKill,  ///< the process ends by SIGKILL, with the message unsent
  kStop,  ///< it is stopped, likewise
  kCut,   ///< the connection ends, and the process goes on
  kLose,  ///< a TCP connection ends, and the process takes the message for sent
};

/// From now on, any thread.
void set_last_step(LastStep what, long k);
/// Messages since then.
long steps();
/// Whether a message has been lost by kLose.
bool has_lost();

}  // namespace tutti::test

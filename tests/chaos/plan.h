// What a round of chaos does: all of it follows from a seed and the number of the round.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "support/sanitized.h"

namespace tutti::chaos {

inline constexpr int kMostRanks = 8;      // of a communicator
inline constexpr int kMostMembers = 200;  // of a round: its first ranks, then all newcomers
inline constexpr int kMostTeams = 2;
/// Seconds after which a call that waits for a live rank fails, where ranks are stopped or lack something.
inline constexpr int kShortTimeout = test::kSanitized ? 6 : 3;

/// Random numbers that follow from a seed and from what they are for.
class Chance {
 public:
  Chance(std::uint64_t seed, std::uint64_t purpose) : seed_(seed), purpose_(purpose) {}
  /// From 0 to sides - 1.
  int below(int sides);
  int between(int least, int most) { return least + below(most - least + 1); }
  bool is_in(int times, int of) { return below(of) < times; }
  std::uint64_t draw();

 private:
  std::uint64_t seed_;
  std::uint64_t purpose_;
  std::uint64_t next_ = 0;
};

enum class Fault {
  kKill,
  kStop,   ///< for longer than the deadline of a call
  kPause,  ///< for less than that: nobody may notice
  kCut,    ///< of all TCP connections of a process
  kMemory,
  kThreads,
  kMappings,
  kDescriptors,
  kFiles,  ///< none may grow: neither a disk nor memory that processes share has room
};
inline constexpr int kFaults = 9;
const char* name_of(Fault fault);
inline bool is_shortage(Fault fault) { return fault >= Fault::kMemory; }

/// A fault strikes a process a while after its first member has begun its call of that number, not counting the join.
struct Strike {
  Fault fault = Fault::kPause;
  int call = 0;
  std::chrono::microseconds delay{0};
  std::chrono::microseconds duration{0};  ///< of what ends by itself
  int request = 1;                        ///< of a shortage: the first that gets nothing
};

enum class Links { kShm, kTcp, kTls, kMixed };

/// A fault of a member itself in its first episode, which chaos has to find.
enum class Planted { kNone, kWrongValue, kWrongCall, kCrash, kHang };

struct Plan {
  std::uint64_t seed = 0;
  Links links = Links::kShm;
  int ranks = 2;  ///< in the beginning
  int ranks_a_process = 1;
  int teams = 1;  ///< each rank has a thread in each team, which has communicators of its own
  int episodes = 4;
  bool kills = false, stops = false, pauses = false, cuts = false, shortages = false;
  bool reconnects = true;  ///< connections that are lost are made again
  bool delays = false;     ///< of what is sent over TCP
  bool revokes = false, excludes = false, grows = false;
  Planted planted = Planted::kNone;

  int processes() const { return (ranks + ranks_a_process - 1) / ranks_a_process; }
  /// Whether a live rank may be taken for a dead one, or lack what it needs.
  bool may_lose_the_living() const { return stops || shortages || (cuts && !reconnects); }
  /// In seconds: of calls, and of shrinks and grows.
  double timeout() const { return may_lose_the_living() ? kShortTimeout : 60; }
  double join_timeout() const { return may_lose_the_living() ? kShortTimeout : 30; }
};
Plan plan_of(std::uint64_t seed, int round);
std::string text_of(const Plan& plan);
/// In the order of their calls. Those of newcomers have the numbers from `ranks` on.
std::vector<Strike> strikes_of(const Plan& plan, int process);

}  // namespace tutti::chaos

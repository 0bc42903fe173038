// The board is memory that all processes of a round share. There they tell each other, and the conductor of the round,
// what they do and what comes of it.
#pragma once

#include <tutti/tutti.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>

#include "chaos/plan.h"
#include "support/meeting_id.h"

namespace tutti::chaos {

/// Asks the conductor for the process of a newcomer.
struct Invitation {
  std::atomic<bool> is_written{false};  ///< by the one who invites; read by the conductor
  int team = 0;
  int rank = 0;
  int ranks = 0;
  tuttiUniqueId id{};
};

/// A member writes here which call it is in, for the report of a round that does not end.
struct Post {
  std::atomic<int> calls{0};
  char text[300] = {};
  void write(const std::string& what) {
    std::snprintf(text, sizeof text, "%s", what.c_str());
    ++calls;
  }
};

/// The pause of a process, in microseconds, and 0 if it is not to be stopped. Written by the process, then taken by the
/// conductor when it sees that it has stopped.
using Pause = std::atomic<long>;

struct Board {
  test::MeetingId ids[kMostTeams];
  Post posts[kMostTeams][kMostMembers];
  Pause pauses[kMostMembers] = {};                 ///< by process
  std::atomic<bool> is_killed[kMostMembers] = {};  ///< by process; set before it happens
  std::atomic<unsigned> struck{0};                 ///< faults, a bit each; set before they happen
  std::atomic<bool> is_revoked[kMostTeams] = {};   ///< by a plan, not by one who recovers; set before it happens

  std::atomic<bool> is_excluded[kMostTeams][kMostMembers] = {};  ///< set before the shrink that does it

  std::atomic<int> members{0};      ///< of the round so far
  std::atomic<int> invitations{0};  ///< places taken
  Invitation invited[kMostMembers];

  // These are the results of the round.
  std::atomic<long> strikes[kFaults] = {};
  std::atomic<long> calls{0}, exact{0}, shrinks{0}, grows{0}, splits{0}, revokes{0}, left_out{0};
  std::atomic<long> errors[16] = {};         ///< by tuttiResult_t
  std::atomic<long> slowest_recovery_us{0};  ///< from an error to a communicator on which all have met
  std::atomic<int> complaints{0};
  static constexpr int kMostComplaints = 12;
  char texts[kMostComplaints][1500] = {};

  bool has_struck(Fault fault) const { return (struck.load() >> static_cast<int>(fault) & 1) != 0; }
  void complain(const std::string& what) {
    const int place = complaints.fetch_add(1);
    if (place < kMostComplaints) std::snprintf(texts[place], sizeof texts[place], "%s", what.c_str());
  }
  void note_recovery(std::chrono::steady_clock::duration took) {
    const long us = std::chrono::duration_cast<std::chrono::microseconds>(took).count();
    long slowest = slowest_recovery_us;
    while (us > slowest && !slowest_recovery_us.compare_exchange_weak(slowest, us)) {
    }
  }
};

}  // namespace tutti::chaos

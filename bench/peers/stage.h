// The memory through which one process, the leader, has the ranks of several libraries carry out collectives in turn.
//
// A group is the ranks of one library, each a process (tutti-perf --compare is the leader, contestant.cc a rank). The
// leader writes an order and counts `orders` up; the group's ranks, asleep on it, carry it out, write their reports and
// count `done` up, on which the leader sleeps. So only one group runs at a time, and nobody looks on spinning.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "race/contested.h"

namespace tutti::peers {

inline constexpr int kMostRanks = 512;
inline constexpr int kMostGroups = 16;
inline constexpr std::size_t kMailBytes = 64 << 10;

enum class Task : std::uint32_t { kCheck, kTime, kLeave };

struct Order {
  Task task;
  race::Contested what;
  std::uint64_t count;  ///< elements that one rank has for one other
  int root;             ///< kTime: of the first operation, the others follow
  int iterations;       ///< kTime: after one that is not timed
};

struct Report {
  pid_t process;
  double begin, end;    ///< kTime: of the timed operations, seconds of the clock that all processes share
  std::uint64_t wrong;  ///< kCheck: elements of this rank
  bool disturbed;       ///< kTime: other programs took the core away; told only where ranks poll
  bool failed;
  char text[256];  ///< why
};

struct Group {
  alignas(128) std::atomic<std::uint32_t> orders;    // the leader's release pairs with the ranks' acquire
  alignas(128) std::atomic<std::uint32_t> done;      // the ranks' release pairs with the leader's acquire
  alignas(128) std::atomic<std::uint32_t> arrived;   // at a meeting of the ranks
  alignas(128) std::atomic<std::uint32_t> meetings;  // the last one's release pairs with the others' acquire
  Order order;
  std::uint32_t offers;  ///< bit i: the library has collective i of race::Contested
  char name[96];         ///< the library's own, with its version
  Report reports[kMostRanks];
};

/// What ranks of one group tell each other while they join.
struct Letter {
  std::uint32_t bytes;
  char content[kMailBytes];
};

struct Stage {
  int ranks;
  bool pinned;                             ///< rank r on core r; else the system may move ranks
  std::uint64_t most_sent, most_received;  ///< elements that any order needs
  Group groups[kMostGroups];
  Letter letters[kMostRanks];
};

/// Sleeps while `word` is `value`, at most `milliseconds`. Shared between processes.
void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t value, int milliseconds);
void wake_all(const std::atomic<std::uint32_t>& word);

/// The leader's: memory without a name, and a pipe whose reader learns that this process is gone, however it went. Both
/// go with the process.
class OwnStage {
 public:
  OwnStage() = default;
  ~OwnStage();
  OwnStage(const OwnStage&) = delete;
  OwnStage& operator=(const OwnStage&) = delete;

  /// False: errno says why.
  bool make();
  Stage* operator->() const { return stage_; }
  /// Where another process finds the two, while this one lives.
  std::string memory_path() const;
  std::string life_path() const;

 private:
  Stage* stage_ = nullptr;
  int memory_ = -1;
  int life_[2] = {-1, -1};
};

/// A rank's view, or nullptr (errno says why). Never unmapped. From now on the end of the leader ends this process.
Stage* open_stage(const char* memory_path, const char* life_path);

}  // namespace tutti::peers

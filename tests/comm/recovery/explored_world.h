// A world of processes that agree on a shrink, every order of whose events can be explored: messages in channels,
// calls, joins, deaths, broken connections and time. docs/design/recovery.md says what of it is proved.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "comm/recovery/explored_process.h"

namespace tutti::test {

/// What is broken on purpose, so that the exploration has something to find.
enum class Fault : std::uint8_t {
  kNone,
  kMislaidMessage,     // one message is lost, and its connection goes on
  kStaleReport,        // the leader takes a report about an earlier number for one about its own
  kNoCommitment,       // the leader takes "joined" for "knows that all have joined"
  kSilentDeath,        // nobody sees that a process dies
  kHiddenFailure,      // the leader takes "could not join" for "joined"
  kForgottenExclusion  // what a caller excludes is lost in its reports
};

/// What may happen in a world, and how often.
struct Scene {
  std::string name;
  std::vector<std::vector<int>> ranks;  // of each place
  std::map<int, std::vector<int>> excluded = {};
  std::vector<int> idle = {};  // ranks that never call
  int rounds = 1;              // after an end, ranks call again while there are rounds left
  int deaths = 0;
  int overdues = 0;
  int remakes = 0;  // of connections
  int cuts = 0;     // connections that break for good between two that live
  int withdrawals = 0;
  int departures = 0;
  int failing_joins = 0;
  int stops = 0;                 // of processes that go on later
  bool late_resumption = false;  // they go on only when nothing else happens any more
  bool makes_ids = true;
  bool calls_first = false;    // everyone has called before anything else happens
  bool overdue_first = false;  // then the process at the first place is overdue
  Fault fault = Fault::kNone;

  /// Nothing goes wrong, so everyone stays.
  bool is_calm() const {
    return deaths + overdues + remakes + cuts + withdrawals + departures + failing_joins + stops == 0 && makes_ids &&
           fault == Fault::kNone;
  }
};

struct WorldEvent {
  enum class Kind : std::uint8_t {
    kDelivery,  // of the first message from a to b
    kLoss,      // of all messages from a to b before the next mark
    kMislaying,
    kCall,  // of rank b at place a, and so on
    kWithdrawal,
    kDeparture,
    kJoin,
    kFailedJoin,
    kDeath,
    kOverdue,
    kRemake,
    kCut,
    kStop,
    kResumption,
    kTick,
  };
  Kind kind = Kind::kTick;
  std::uint8_t a = 0;
  std::uint8_t b = 0;
};

/// All processes and channels. Processes and messages are numbers in the tables of a World.
struct WorldState {
  static constexpr std::size_t kPlaces = 5;
  struct Channel {
    static constexpr std::size_t kRoom = 25;
    std::uint16_t size = 0;
    std::array<std::uint16_t, kRoom> messages{};
  };
  std::array<std::uint32_t, kPlaces> processes{};
  std::array<std::array<Channel, kPlaces>, kPlaces> channels{};
  std::uint32_t cut = 0;  // a bit for each ordered pair
  std::uint8_t dead = 0;
  std::uint8_t stopped = 0;
  std::uint8_t ticks = 0;  // since something else than an answer to them happened
  struct Budget {
    std::uint8_t deaths, overdues, remakes, cuts, withdrawals, departures, failing_joins, stops, mislayings;
  } budget{};
};

struct StateHash {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  bool operator==(const StateHash&) const = default;
};

class World {
 public:
  using Kind = WorldEvent::Kind;
  explicit World(const Scene& scene);

  WorldState first() const { return first_; }
  /// All that may happen next. Time passes only if nothing else has to happen.
  void list_events(const WorldState& state, std::vector<WorldEvent>* events);
  /// Returns what is wrong with it, or an empty text.
  std::string apply(const WorldEvent& event, WorldState* state);
  /// In a state in which nothing happens any more but by choice: who waits though nobody is left to wait for?
  std::string check_rest(const WorldState& state) const;
  StateHash hash(const WorldState& state) const;
  std::string describe(const WorldEvent& event, const WorldState& before) const;
  /// Whether the last list of events had nothing that has to happen, and a tick would change nothing or has come often.
  bool is_at_rest() const { return is_at_rest_; }
  std::size_t known_processes() const { return known_.size(); }
  /// How rounds have ended, in all that was visited.
  const std::set<std::string>& outcomes() const { return outcomes_; }

 private:
  /// Marks in channels.
  static constexpr std::uint16_t kClosed = 0;
  static constexpr std::uint16_t kRemade = 1;
  static constexpr std::uint8_t kMostTicks = 2 * (Agreement::kPatience + 1) + 1;

  struct Transition {
    std::uint32_t process = 0;
    std::vector<std::pair<std::uint8_t, std::uint16_t>> sent;
    bool has_ended = false;
    std::string violation;
  };

  std::size_t size() const { return scene_.ranks.size(); }
  bool lives(const WorldState& state, std::size_t place) const { return (state.dead >> place & 1) == 0; }
  bool acts(const WorldState& state, std::size_t place) const {
    return ((state.dead | state.stopped) >> place & 1) == 0;
  }
  bool is_cut(const WorldState& state, std::size_t a, std::size_t b) const {
    return (state.cut >> (a * WorldState::kPlaces + b) & 1) != 0;
  }
  const ExploredProcess& process(const WorldState& state, std::size_t place) const {
    return *processes_[state.processes[place]];
  }
  std::uint32_t number(const ExploredProcess& process);
  std::uint16_t number(const ShrinkMessage& message);
  const Transition& transition(std::uint32_t process, Happening what, std::size_t from, std::uint16_t message,
                               int rank);
  std::string let(std::size_t place, Happening what, std::size_t from, std::uint16_t message, int rank,
                  WorldState* state);
  std::uint16_t distort(const WorldState& state, std::size_t to, std::uint16_t message);
  std::string deliver(std::size_t from, std::size_t to, WorldState* state);
  bool append(std::size_t from, std::size_t to, std::uint16_t message, WorldState* state) const;
  static std::size_t mark_in(const WorldState::Channel& channel);
  bool list_first_call(const WorldState& state, std::vector<WorldEvent>* events) const;
  bool list_deliveries(const WorldState& state, std::vector<WorldEvent>* events) const;
  bool list_joins(const WorldState& state, std::vector<WorldEvent>* events) const;
  void list_calls(const WorldState& state, std::vector<WorldEvent>* events) const;
  void list_mishaps(const WorldState& state, std::vector<WorldEvent>* events) const;
  bool may_join(const WorldState& state, std::size_t place) const;
  bool has_to_fail(const WorldState& state, std::size_t place) const;
  bool may_fail(const WorldState& state, std::size_t place) const;
  bool tick_changes(const WorldState& state);
  std::string tick(WorldState* state);
  void strike(const WorldEvent& event, WorldState* state) const;
  void die(std::size_t place, WorldState* state) const;
  std::string check_end(const WorldState& state, std::size_t place) const;
  std::string compare_ends(const WorldState& state, std::size_t a, std::size_t b, std::size_t round) const;
  bool waits_rightly(const WorldState& state, std::size_t place) const;

  Scene scene_;
  std::shared_ptr<Agreement::Layout> layout_;
  std::vector<std::size_t> place_of_;
  NumberSet idle_;
  WorldState first_;
  std::map<ExploredProcess, std::uint32_t> known_;
  std::vector<const ExploredProcess*> processes_;
  std::map<ShrinkMessage, std::uint16_t> known_messages_;
  std::vector<ShrinkMessage> messages_;
  std::unordered_map<std::uint64_t, Transition> transitions_;
  std::set<std::string> outcomes_;
  bool is_at_rest_ = false;
};

}  // namespace tutti::test

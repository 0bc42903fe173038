// One run of the simulator: ranks, their lanes, the cores that they share, and the events that move them.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "schedule/peer_list.h"
#include "schedule/simulator/event_queue.h"
#include "schedule/simulator/rhythm.h"
#include "schedule/simulator/simulated_links.h"
#include "schedule/simulator/simulated_network.h"
#include "schedule/simulator/simulator.h"
#include "schedule/tiling.h"

namespace tutti {

/// What is to be run: so many passes, by the ranks below `period`, which stand for all.
struct SimulationPlan {
  const Algorithm* algorithm = nullptr;
  SimulatedCall call;
  Network network;
  std::int32_t period = 1;
  std::size_t tiles = 1;   ///< of a call
  std::size_t passes = 1;  ///< pass p works on tile p % tiles
  std::uint64_t most_steps = 0;
  std::size_t round = 0;           ///< passes of a round. The run ends once rounds repeat, unless this is 0.
  std::uint64_t enough_steps = 0;  ///< of SimulationLimits
  Time longest = std::numeric_limits<Time>::max();  ///< of SimulationLimits
};

class Simulation {
 public:
  enum class End : std::uint8_t { kDone, kTooManySteps, kTooSlow };
  End run(const SimulationPlan& plan, Trace* trace);

  std::span<const Time> finish() const { return finish_; }
  /// When the last rank had finished a pass.
  Time pass_end(std::size_t pass) const { return pass_ends_[pass]; }
  Time busiest_wire() const { return network_.busiest(); }
  std::uint64_t steps() const { return steps_; }
  /// After kDone: passes that all ranks have finished, fewer than the plan's if rounds repeat from there on.
  std::size_t passes() const { return passes_; }
  const Rhythm& rhythm() const { return rhythm_; }

 private:
  static constexpr std::uint32_t kNoLink = ~std::uint32_t{0};
  static constexpr Time kPercent = 100;
  static constexpr Time kWhole = 720720;  // the thirds, fifths, sevenths of it are whole

  /// One lane of one rank.
  struct Strand {
    Step step;
    PeerList peers;          ///< of a step that receives from a set
    std::int32_t seen = 0;   ///< peers before are known to have sent
    std::uint32_t pass = 0;  ///< == passes: finished
    std::uint32_t number = 0;
    std::uint32_t steps = 0;
    std::uint32_t place = 0;          ///< among the strands that have steps
    std::uint32_t in = kNoLink;       ///< the link of a step that receives from one
    std::uint32_t out = kNoLink;      ///< the link of a step that sends to one
    std::uint32_t awaited = kNoLink;  ///< the link whose next message or, if `wants_slot`, slot has no time yet
    bool wants_slot = false;
    std::size_t bytes = 0;
    Time begin = 0;
  };

  /// One rank: one thread, which drives its lanes in turn.
  struct Worker {
    std::uint32_t lane = 0;  ///< the one that moved last
    bool busy = false;
    bool queued = false;  ///< for its core
    std::uint32_t unfinished = 0;
  };

  /// A core that several ranks share.
  struct Core {
    std::int32_t rank = -1;  ///< that had it last
    bool busy = false;
    std::vector<std::int32_t> queue;  ///< ranks that could go on, first come first served
    std::size_t head = 0;
  };

  void start(const SimulationPlan& plan);
  void place_ranks();
  void count_touches();
  Shape shape_of(std::int32_t rank) const;
  Strand& strand(std::int32_t rank, std::uint32_t lane) {
    return strands_[static_cast<std::size_t>(rank) * lanes_ + lane];
  }
  std::int32_t host_of(std::int32_t rank) const;
  const LinkCosts& costs_between(std::int32_t a, std::int32_t b) const;
  std::uint32_t link_between(std::int32_t from, std::int32_t to, std::uint32_t lane, bool multicast);
  std::uint32_t credits_for(std::size_t bytes) const;

  void load(std::int32_t rank, Strand& strand);
  std::size_t bytes_of(const Strand& strand) const;
  std::size_t largest_bytes_of(const Strand& strand, std::size_t tile) const;
  bool look(std::int32_t rank, Time now);
  bool can_run(std::int32_t rank, Strand& strand, Time now);
  bool has_message(std::int32_t rank, Strand& strand, std::uint32_t link, Time now);
  bool has_slot(std::int32_t rank, Strand& strand, Time now);
  bool wait_until(std::int32_t rank, Strand& strand, Time when, Time now);

  bool take_core(std::int32_t rank, Time* begin);
  void leave_core(std::int32_t rank, Time now);
  void begin(std::int32_t rank, std::uint32_t lane, Time now);
  Time duration(std::int32_t rank, const Strand& strand) const;
  Time on_host(std::int32_t rank, Time work) const;
  Time receiving(std::int32_t rank, const Strand& strand) const;
  Time sending(std::int32_t rank, const Strand& strand) const;
  Time memory_busy(std::int32_t rank, const Strand& strand, Time begin);

  void end(std::int32_t rank, Time now);
  void release(std::int32_t rank, const Strand& strand, Time now);
  void release_one(std::int32_t rank, std::int32_t peer, const Strand& strand, Time now);
  void commit(std::int32_t rank, const Strand& strand, Time end);
  void commit_to(std::int32_t rank, std::int32_t peer, std::uint32_t link, const Strand& strand, Time sent);
  void arrive(std::uint32_t link, std::int32_t reader, Time seen);
  void wake_sender(std::int32_t sender, std::uint32_t lane, std::uint32_t link, Time when);
  void advance(std::int32_t rank, Strand& strand, Time now);
  void finish_pass(const Strand& strand, Time now);
  bool is_too_slow(std::size_t rounds) const;
  void wire(std::uint32_t transit, Time now);

  SimulationPlan plan_;
  Extent extent_;
  Tiling tiling_{Extent{}, Elems{0}, Elems{1}, Elems{1}};
  std::uint32_t lanes_ = 1;
  bool flat_network_ = true;  ///< without a map of hosts
  EventQueue events_;
  SimulatedLinks links_;
  SimulatedNetwork network_;
  std::vector<MulticastSlots> multicast_slots_;  ///< by strand; made at the first multicast
  std::vector<Strand> strands_;                  ///< rank-major
  std::vector<Worker> workers_;                  ///< by rank
  std::vector<Core> cores_;                      ///< those that are shared
  std::vector<std::int32_t> core_of_;            ///< by rank; -1: has its own
  std::vector<Time> memory_idle_;                ///< by host, or the machine's
  std::vector<Time> work_percent_;               ///< by host; empty: all are equally fast
  std::vector<Time> first_touches_;  ///< by rank: what is not in its cache of all that its steps touch, in 1/kWhole
  std::vector<Time> finish_;
  std::vector<Time> pass_ends_;
  bool crosses_memory_ = false;  ///< whether buffers exceed the caches
  std::uint64_t steps_ = 0;
  std::uint64_t work_ = 0;
  Rhythm rhythm_;
  std::size_t passes_ = 0;
  bool too_slow_ = false;
  Trace* trace_ = nullptr;
};

}  // namespace tutti

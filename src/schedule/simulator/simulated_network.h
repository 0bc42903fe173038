// The network of the simulator. A message between hosts is a flow over a path of links: its host's link out, its leaf's
// way up, the other leaf's way down, the other host's link in. All flows on a link share it equally, and a flow goes as
// fast as the least of its shares (so a link may idle a little where flows are held up elsewhere: what max-min sharing
// would give to others is not given). Messages of one link of the schedule follow one another, as on a connection. No
// more than kMostFlows share a host's link in one direction: others wait for their turn, as in the queue of a card.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/costs.h"
#include "schedule/simulator/event_queue.h"
#include "schedule/simulator/simulator.h"

namespace tutti {

/// A message between two hosts, on its way.
struct Transit {
  std::uint32_t link = 0;  ///< of the schedule
  std::int32_t reader = 0;
  std::int32_t from_host = 0;
  std::int32_t to_host = 0;
  bool crosses_leaves = false;
  std::size_t bytes = 0;
  std::size_t trace = 0;  ///< its number there
  Time sent = 0;
};

/// One thread.
class SimulatedNetwork {
 public:
  void reset(const Network& network, std::int32_t hosts, std::int32_t ranks);

  /// Whether messages between hosts take time on a wire; if not, they are there after the latency.
  bool has_wires() const { return wire_kib_ > 0; }
  Time latency() const { return latency_; }

  /// A message sets out at `transit.sent`.
  void send(const Transit& transit, EventQueue& events);
  /// Something happens to a message: it begins, or its last byte has left the wires (true).
  bool happen(std::uint32_t number, Time now, EventQueue& events);
  const Transit& transit(std::uint32_t number) const { return flows_[number].transit; }
  /// It has arrived and is forgotten.
  void forget(std::uint32_t number) { unused_.push_back(number); }

  /// Flows have begun or ended: before time goes on, settle() says how fast the others are now.
  bool is_unsettled() const { return !changed_.empty(); }
  void settle(Time now, EventQueue& events);
  /// The time in which the busiest wire carries what was sent so far: no call is shorter.
  Time busiest() const { return busiest_; }
  /// How often speeds were computed so far, which is what many messages on one link cost most.
  std::uint64_t updates() const { return updates_; }

 private:
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};
  static constexpr int kHops = 4;

  struct Flow {
    Transit transit;
    bool flowing = false;
    Time begins = INT64_MAX;                  ///< not known while another message is before it
    std::uint32_t next = kNobody;             ///< the message after it on the same connection
    std::int64_t speed = 0;                   ///< kFull: as fast as a host's link
    Time left = 0;                            ///< time that it would still take at full speed
    Time since = 0;                           ///< when `left` was right
    Time end = 0;                             ///< when it ends at this speed
    Time looked_at = INT64_MAX;               ///< the next event that looks whether it has ended
    std::array<std::uint32_t, kHops> path{};  ///< links of the network
    std::array<std::uint32_t, kHops> place{};
    int hops = 0;
  };
  struct Wire {
    std::int64_t capacity = 0;
    Time work = 0;  ///< the time in which it carries what was sent over it so far
    bool changed = false;
    std::vector<std::uint32_t> flows;
    std::vector<std::uint32_t> waiting;  ///< for a place among them, first come first served
    std::size_t served = 0;              ///< of these
  };

  void find_path(Flow& flow) const;
  void start(std::uint32_t number, Time now, EventQueue& events);
  void begin(std::uint32_t number, Time now);
  void leave(std::uint32_t number, Time now);
  void serve(std::uint32_t wire, Time now);
  void touch(std::uint32_t wire);
  std::int64_t speed_of(const Flow& flow) const;

  Time latency_ = 0;
  Time wire_kib_ = 0;
  std::size_t most_flows_ = 0;
  std::uint32_t hosts_ = 0;
  FatTree tree_;
  std::uint32_t leaves_ = 0;
  std::uint64_t updates_ = 0;
  Time busiest_ = 0;
  std::vector<Wire> wires_;  ///< out of hosts, into hosts, up from leaves, down to leaves
  std::vector<std::uint32_t> changed_;
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> unused_;
  std::vector<std::uint32_t> last_;  ///< by link of the schedule: its last message that has not arrived
};

}  // namespace tutti

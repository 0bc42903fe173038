// What running a schedule costs: the parameters of the simulator, and through it of the choice of an algorithm.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include "core/units.h"

namespace tutti {

/// Picoseconds. Integers, so that every rank on any processor computes the same prediction.
using Time = std::int64_t;

/// What a message costs on one kind of link. LogGP (Alexandrov, Ionescu, Schauser, Scheiman 1995): L is `latency`, o
/// the overheads, G the costs a KiB, divided among processors and wire.
struct LinkCosts {
  Time latency = 0;        ///< from the sender's commit until the receiver can see the message
  Time send_overhead = 0;  ///< processor time a message
  Time recv_overhead = 0;
  Time send_kib = 0;       ///< processor time a KiB: writing a slot, or a socket
  Time recv_kib = 0;       ///< fetching what a peer wrote, on top of working on it, or reading a socket
  Time wire_kib = 0;       ///< time that a KiB occupies a host's link in one direction; 0: no limit
  Time long_overhead = 0;  ///< processor time besides, of who receives a message of more than kShortMessage bytes: its
                           ///< lines are fetched after its header has been seen

  constexpr auto operator<=>(const LinkCosts&) const = default;
};

inline constexpr std::size_t kShortMessage = 256;

/// A plain value. The defaults are those of two cores with separate caches (docs/simulation.md).
struct Costs {
  LinkCosts shm{215'000, 10'000, 100'000, 34'000, 20'000, 0, 170'000};
  LinkCosts tcp{1'120'000, 3'130'000, 685'000, 67'000, 78'000, 0, 0};  ///< over the loopback of a host
  /// These two hold between hosts in place of the loopback's (Machine::tcp_costs). They are 0 if nobody knows them.
  Time network_latency = 0;
  Time network_wire_kib = 0;
  Time call = 45'000;         ///< from the C function to the first step and back
  Time step = 9'000;          ///< the interpreter's, a step
  Time reduce_kib = 15'000;   ///< a KiB of each operand of a reduction
  Time copy_kib = 20'000;     ///< a KiB stored without a reduction
  Time handover = 1'150'000;  ///< a core goes from one rank to another, where ranks share it
  Time memory_kib = 18'500;   ///< a KiB that a host reads or writes beyond its caches, all ranks together; 0: no limit
  std::size_t cache_bytes = 32 << 20;  ///< of a host: where the buffers of its ranks fit, the memory's limit is not met
  std::int32_t cores = 2;              ///< of a host

  constexpr auto operator<=>(const Costs&) const = default;
};

/// The latency between hosts where the rate of the network is known and its latency is not.
inline constexpr Time kUsualNetworkLatency = 10'000'000;

/// The time that `bytes` take at so much a KiB, rounded down.
constexpr Time time_of(std::size_t bytes, Time a_kib) {
  const auto whole = static_cast<Time>(bytes / 1024);
  return whole * a_kib + static_cast<Time>(bytes % 1024) * a_kib / 1024;
}

}  // namespace tutti

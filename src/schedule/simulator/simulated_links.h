// Links of the simulator: when the messages of each may be read, and when their slots are free again.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/costs.h"

namespace tutti {

/// Messages of one sender to one reader on one lane, in order. Of a multicast link each reader has one of these, and
/// the slots are the sender's (MulticastSlots).
struct SimulatedLink {
  std::uint32_t sent = 0;     ///< claimed by the sender
  std::uint32_t arrived = 0;  ///< with a time from which on the reader sees it
  std::uint32_t taken = 0;
  std::uint32_t places = 0;  ///< of the ring, a power of two
  std::size_t ring = 0;      ///< by message: when it is seen; once taken: when its slot is the sender's again
};

/// All of them. A link comes into being when it is first named. One thread.
class SimulatedLinks {
 public:
  static constexpr std::uint32_t kMostPlaces = 64;
  static constexpr Time kNever = INT64_MAX;

  /// Empties all links; each holds at most `credits` messages, no more than kMostPlaces.
  void reset(std::uint32_t credits);

  std::uint32_t find(std::int32_t from, std::int32_t to, std::uint32_t lane, bool multicast);
  std::size_t size() const { return links_.size(); }

  /// When the sender may claim the next message, with so many credits in all; kNever: not known before one is taken.
  Time free_at(std::uint32_t link, std::uint32_t credits) const;
  void claim(std::uint32_t link);
  void arrive(std::uint32_t link, Time seen);
  /// When the reader sees its next message; kNever: it is not known yet.
  Time seen_at(std::uint32_t link) const;
  std::uint32_t taken(std::uint32_t link) const { return links_[link].taken; }
  /// The reader is done with its next message.
  void take(std::uint32_t link, Time free);

 private:
  struct Place {
    std::uint64_t key = 0;  ///< 0: nothing here
    std::uint32_t link = 0;
  };

  void widen(SimulatedLink& link);
  void rehash();
  Time& at(const SimulatedLink& link, std::uint32_t message) {
    return rings_[link.ring + (message & (link.places - 1))];
  }
  const Time& at(const SimulatedLink& link, std::uint32_t message) const {
    return rings_[link.ring + (message & (link.places - 1))];
  }

  std::uint32_t most_places_ = 2;
  std::vector<SimulatedLink> links_;
  std::vector<Time> rings_;
  std::vector<Place> table_;  ///< open addressing, at most half full
};

/// The slots of one sender's multicast link.
struct MulticastSlots {
  static constexpr std::uint32_t kMost = 16;
  struct Slot {
    std::uint32_t pending = 0;  ///< readers that still need it
    Time free = 0;              ///< when the last of the others was done
  };
  std::uint32_t sent = 0;
  std::uint32_t count = 0;  ///< of the slots; 0: nothing was sent yet
  std::array<Slot, kMost> slots{};

  Slot& slot_of(std::uint32_t message) { return slots[message % count]; }
  /// When the next message may be claimed.
  Time free_at() { return slot_of(sent).pending == 0 ? slot_of(sent).free : SimulatedLinks::kNever; }
};

}  // namespace tutti

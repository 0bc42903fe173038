// Links of the prover: ordered and bounded, as the transport's contract says, for unicast and multicast.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/contribution.h"

namespace tutti {

/// What travels: a value, or several. The sender's reference to the value travels along.
struct Message {
  ValueId value = kNoValue;
  std::uint32_t chunk = 0;
  std::uint32_t number = 0;  ///< what ReferenceWatch calls it
  std::uint32_t count = 1;   ///< chunks that it carries; if several, `value` names a bundle of LinkTable
};

/// One direction of one pair on one lane; `multicast`: the sender's multicast link as this reader sees it.
struct LinkName {
  std::int32_t from;
  std::int32_t to;
  std::uint32_t lane;
  bool multicast;
};

/// All links of a program. A link comes into being when it is first named. One thread.
class LinkTable {
 public:
  explicit LinkTable(ContributionPool& values) : values_(values) {}

  /// Empties all links; each holds `credits` messages.
  void reset(std::int32_t ranks, std::uint32_t lanes, std::uint32_t credits);

  /// Whether the sender has a credit. A multicast slot is free when all readers have taken its message.
  bool has_room(const LinkName& link);
  /// `values` is one value, or several if the link is no multicast link. They are noted in the message.
  void push(const LinkName& link, Message message, std::span<const ValueId> values);
  /// The reader's next message, or nullptr.
  const Message* front(const LinkName& link);
  std::span<const ValueId> values(const Message& message) const {
    return message.count == 1 ? std::span<const ValueId>(&message.value, 1) : bundles_[message.value];
  }
  /// Takes the message off; releases its values once no reader needs it.
  void pop(const LinkName& link);

  /// Some link with a message that nobody took, if there is one.
  bool find_unread(LinkName* link);

 private:
  struct Queue {
    std::size_t name = 0;  ///< index in `unicast_`
    std::uint32_t sent = 0;
    std::uint32_t taken = 0;
  };
  struct Multicast {
    std::uint32_t sent = 0;
  };

  std::size_t pair(const LinkName& l) const {
    return (std::size_t{l.lane} * ranks_ + static_cast<std::size_t>(l.from)) * ranks_ + static_cast<std::size_t>(l.to);
  }
  std::size_t source(const LinkName& l) const {
    return std::size_t{l.lane} * ranks_ + static_cast<std::size_t>(l.from);
  }
  std::size_t multicast_slot(const LinkName& l, std::uint32_t message) const {
    return source(l) * places_ + (message & (places_ - 1));
  }
  LinkName name_of_pair(std::size_t pair, bool multicast) const;
  Queue& queue(const LinkName& link, std::uint32_t* slots);
  std::uint32_t bundle(std::span<const ValueId> values);

  ContributionPool& values_;
  std::size_t ranks_ = 0;
  std::uint32_t lanes_ = 0;
  std::uint32_t credits_ = 0;
  std::uint32_t places_ = 0;  ///< slots a link: credits_, or more for a power of two, whose remainders cost nothing
  std::vector<std::uint32_t> unicast_;  ///< pair -> 1 + index of its queue, 0: not named yet
  std::vector<Queue> queues_;
  std::vector<Message> slots_;            ///< places_ a queue
  std::vector<Multicast> multicasts_;     ///< source -> its multicast link
  std::vector<std::uint32_t> readers_;    ///< pair -> messages that this reader took; made at the first multicast
  std::vector<std::uint32_t> pending_;    ///< places_ a source: readers that still need the slot
  std::vector<Message> multicast_slots_;  ///< places_ a source
  std::vector<std::vector<ValueId>> bundles_;
  std::vector<std::uint32_t> free_bundles_;
};

}  // namespace tutti

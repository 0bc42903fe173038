// The times of gathers and scatters; those of broadcasts and reduces are in rooted_times.cc.
#include "collectives/choice/network_times.h"
#include "collectives/choice/rooted_times.h"

namespace tutti {

/// Blocks longer than a message go in parts, which follow one another. Those of the root's host come first.
Time RootedTimes::blocks_straight(Collective collective) const {
  const std::size_t parts = std::max<std::size_t>(div_up(bytes_, machine_.max_message.value), 1);
  const std::int32_t elsewhere = ranks_ - each_;
  const Message one = far(bytes_ / parts), near_one = near(bytes_ / parts);
  const bool scatters = collective == Collective::kScatter;
  const Time within = product(each_ - 1, scatters ? near_one.sends : near_one.receives);
  const Time between = product(elsewhere, scatters ? one.sends : one.receives);
  const Time wire = product(elsewhere, one.wire);
  const Time first =
      scatters ? to_several(elsewhere, one) + within : std::max(one.sends + one.latency + wire, within) + between;
  return first + product(static_cast<std::int64_t>(parts) - 1, std::max(within + between, wire));
}

/// A root need not be the first rank of its host, so on each level some rank may have all of its children elsewhere.
/// Where the largest message is longer than a link's, the schedule runs for a part of each block after the other, and
/// what happens on one level goes on beside the others: the first part comes through, then the root sets the pace.
Time RootedTimes::blocks_in_tree(Collective collective, std::int32_t radix) const {
  const bool scatters = collective == Collective::kScatter;
  const auto several = scatters ? to_several : from_several;
  const Levels all = levels(ranks_, radix);
  const std::size_t longest = static_cast<std::size_t>(all.top().span) * bytes_;
  const std::size_t parts = std::max<std::size_t>(div_up(longest, machine_.max_message.value), 1);
  Time time = 0, processor = 0, wire = 0;
  for (std::size_t i = 0; i < all.count; ++i) {
    const Level& level = all.of[i];
    const Message far_one = far_in_tree(bytes_ / parts, level.span);
    time += several(level.children, far_one);
    processor += product(level.children, scatters ? far_one.sends : far_one.receives);
    wire += product(level.children, far_one.wire);
  }
  return time + product(static_cast<std::int64_t>(parts) - 1, std::max(processor, wire));
}

/// Only neighbouring ranks' blocks go in one message.
Time RootedTimes::blocks_by_leaders(Collective collective) const {
  const std::int32_t blocks = neighbours_ ? each_ : 1;
  const std::size_t longest = static_cast<std::size_t>(blocks) * bytes_;
  const std::size_t parts = std::max<std::size_t>(div_up(longest, machine_.max_message.value), 1);
  const Message one = far(bytes_ / parts, false, blocks), near_one = near(bytes_ / parts);
  const std::int32_t messages = neighbours_ ? hosts_ - 1 : ranks_ - each_;
  const bool scatters = collective == Collective::kScatter;
  const Time first =
      gather_within(bytes_ / parts, false) + (scatters ? to_several(messages, one) : from_several(messages, one));
  const Time processor = product(messages, scatters ? one.sends : one.receives) +
                         product(each_ - 1, scatters ? near_one.sends : near_one.receives);
  const Time pace = std::max(processor, product(messages, one.wire));
  return first + product(static_cast<std::int64_t>(parts) - 1, pace);
}

}  // namespace tutti

#include "core/call_board.h"

namespace tutti {

PostedCall CallBoard::find(std::uint64_t sequence) const {
  const Entry& entry = history_[sequence % kHistory];
  PostedCall found;
  if (sequence == 0 || entry.sequence.load(std::memory_order_acquire) != sequence) return found;  // pairs with begin()
  const std::uint64_t count = entry.count.load(std::memory_order_acquire);
  const std::uint64_t what = entry.what.load(std::memory_order_acquire);
  if (entry.sequence.load(std::memory_order_acquire) != sequence) return found;
  found.call.sequence = sequence;
  found.call.count = count;
  found.call.collective = static_cast<Collective>(what & 0xff);
  found.call.type = static_cast<DataType>(what >> 8 & 0xff);
  found.call.op = static_cast<RedOp>(what >> 16 & 0xff);
  found.call.root = Rank{static_cast<std::int32_t>(what >> 32)};
  found.known = true;
  return found;
}

}  // namespace tutti

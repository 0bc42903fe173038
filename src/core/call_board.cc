#include "core/call_board.h"

namespace tutti {

PostedCall CallBoard::find(std::uint64_t sequence) const {
  const Entry& entry = history_[sequence % kHistory];
  PostedCall found;
  if (sequence == 0 || entry.sequence.load(std::memory_order_acquire) != sequence)
    return found;  // pairs with copy_call()
  const std::uint64_t count = entry.count.load(std::memory_order_acquire);
  const std::uint64_t what = entry.what.load(std::memory_order_acquire);
  if (entry.sequence.load(std::memory_order_acquire) != sequence) return found;
  found.call.sequence = sequence;
  found.call.count = count;
  unpack_call(what, &found.call);
  found.known = true;
  return found;
}

}  // namespace tutti

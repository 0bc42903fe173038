#include "comm/stream_shelf.h"

namespace tutti {

void StreamShelf::put(Rank peer, Lane lane, TcpStream stream) {
  TcpStream older;  // closed without the lock
  {
    const std::lock_guard lock(mutex_);
    older = std::exchange(streams_[{peer, lane}], std::move(stream));
  }
  older.guard.reset();
  slot_.call();
}

bool StreamShelf::take(Rank peer, Lane lane, TcpStream* stream) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find({peer, lane});
  if (found == streams_.end()) return false;
  *stream = std::move(found->second);
  streams_.erase(found);
  return true;
}

}  // namespace tutti

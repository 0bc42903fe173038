#include "comm/membership/accepted_streams.h"

#include <algorithm>

namespace tutti {

void AcceptedStreams::put(Rank peer, Lane lane, std::uint32_t number, TcpStream stream) {
  TcpStream older;  // it is closed when the lock has been released
  {
    const MutexLock lock(mutex_);
    Place& place = places_[{peer, lane}];
    place.number = number;
    older = std::exchange(place.stream, std::move(stream));
  }
  older.guard.reset();
  slot_.call();
}

bool AcceptedStreams::take(Rank peer, Lane lane, TcpStream* stream) {
  const MutexLock lock(mutex_);
  const auto found = places_.find({peer, lane});
  if (found == places_.end() || !found->second.stream.socket.valid()) return false;
  *stream = std::exchange(found->second.stream, TcpStream());
  found->second.taken = found->second.number;
  return true;
}

std::size_t AcceptedStreams::waiting() const {
  const MutexLock lock(mutex_);
  return static_cast<std::size_t>(std::count_if(places_.begin(), places_.end(),
                                                [](const auto& place) { return place.second.stream.socket.valid(); }));
}

std::uint32_t AcceptedStreams::taken(Rank peer, Lane lane) const {
  const MutexLock lock(mutex_);
  const auto found = places_.find({peer, lane});
  return found == places_.end() ? 0 : found->second.taken;
}

}  // namespace tutti

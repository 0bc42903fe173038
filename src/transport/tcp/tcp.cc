#include "transport/tcp/tcp.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace tutti {
Status TcpEndpoint::open(TcpStreamSource& tcp_streams, const TcpGeometry& geometry, Place place, LogSource log,
                         std::unique_ptr<TcpEndpoint>* endpoint) {
  std::unique_ptr<TcpEndpoint> made(new TcpEndpoint(tcp_streams, geometry, std::move(place), log));
  made->epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  made->doorbell_.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!made->epoll_.valid() || !made->doorbell_.valid())
    return fail(Code::kSystemError, "cannot wait for connections: {}", errno_text());
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;
  ::epoll_ctl(made->epoll_.get(), EPOLL_CTL_ADD, made->doorbell_.get(), &event);
  tcp_streams.set_listener([raw = made.get()] { raw->wake(); });
  *endpoint = std::move(made);
  return {};
}

TcpEndpoint::TcpEndpoint(TcpStreamSource& tcp_streams, const TcpGeometry& geometry, Place place, LogSource log)
    : streams_(tcp_streams),
      geometry_(geometry),
      place_(std::move(place)),
      comm_(log.comm),
      log_{log.rank, comm_},
      first_links_(place_.ranks) {
  for (int lane = 0; lane < place_.lanes; ++lane) multicast_.emplace_back(geometry_);
}

TcpEndpoint::~TcpEndpoint() { streams_.set_listener(nullptr); }

/// Calls `what` with each reader of the multicast link, in rank order.
template <class What>
void TcpEndpoint::for_each_far(const What& what) const {
  auto near = place_.near.begin();
  for (Rank peer{0}; peer.value < place_.ranks; ++peer) {
    if (near != place_.near.end() && *near == peer) {
      ++near;
    } else {
      what(peer);
    }
  }
}

TcpLink& TcpEndpoint::link(Rank peer, std::uint16_t lane) {
  std::uint32_t& first = first_links_.make(peer);
  if (first == 0) [[unlikely]] {
    links_.resize(links_.size() + static_cast<std::size_t>(place_.lanes));
    first = static_cast<std::uint32_t>(links_.size() - static_cast<std::size_t>(place_.lanes) + 1);
  }
  std::unique_ptr<TcpLink>& found = links_[first - 1 + lane];
  if (!found) [[unlikely]] {
    found = std::make_unique<TcpLink>(streams_, geometry_, place_.rank, peer, Lane{lane}, epoll_.get(), unsent_, log_);
    made_.push_back(found.get());
  }
  return *found;
}

bool TcpEndpoint::can_send(Route route) {
  if (!route.multicast) {
    TcpLink& to = link(route.peer, route.lane);
    if (to.outbox().has_credit(FrameKind::kUnicast)) return true;
    to.read_all();
    return to.outbox().has_credit(FrameKind::kUnicast) || (look_around(), to.connect(), false);
  }
  bool free = true;
  for_each_far([&](Rank peer) {
    TcpLink& to = link(peer, route.lane);
    if (to.outbox().has_credit(FrameKind::kMulticast)) return;
    to.read_all();
    if (to.outbox().has_credit(FrameKind::kMulticast)) return;
    to.connect();
    free = false;
  });
  if (!free) look_around();
  return free;
}

std::byte* TcpEndpoint::send_claim(Route route, Bytes bytes) {
  if (!can_send(route)) return nullptr;
  return route.multicast ? multicast_room(route.lane, bytes) : link(route.peer, route.lane).outbox().claim(bytes);
}

/// Returns memory for the lane's next message: the slot of an earlier one that all readers have released, if there is
/// one, else a new one.
std::byte* TcpEndpoint::multicast_room(std::uint16_t number, Bytes bytes) {
  Multicast& lane = multicast_[number];
  const auto slot = [&](std::uint32_t message) -> TcpSlot& { return lane.slots[message & (geometry_.credits - 1)]; };
  std::uint32_t unreleased = 0;
  for_each_far([&](Rank peer) {
    unreleased = std::max(unreleased, lane.sent - link(peer, number).outbox().released(FrameKind::kMulticast));
  });
  for (; lane.sent - lane.freed > unreleased; ++lane.freed) lane.free.give_back(std::move(slot(lane.freed)));
  return lane.free.room(&slot(lane.sent), bytes.value);
}

void TcpEndpoint::send_commit(Route route, Bytes bytes, Fingerprint fingerprint) {
  if (!route.multicast) {
    TcpLink& to = link(route.peer, route.lane);
    to.outbox().commit(bytes, fingerprint, to.releases());
    return write(to);
  }
  Multicast& lane = multicast_[route.lane];
  std::byte* const data = multicast_room(route.lane, bytes);
  ++lane.sent;
  // If there is one reader, its frame stands in front of the message, so that one piece is written.
  const bool one_reader = static_cast<std::size_t>(place_.ranks) == place_.near.size() + 1;
  std::byte* const head = one_reader ? data - TcpFrame::kBytes : nullptr;
  for_each_far([&](Rank peer) {
    TcpLink& to = link(peer, route.lane);
    to.outbox().lend(FrameKind::kMulticast, head, data, bytes, fingerprint, to.releases(), false);
    write(to);
  });
}

ReferenceState TcpEndpoint::send_reference(Route route, const std::byte* data, Bytes bytes, Fingerprint fingerprint) {
  if (bytes.value < kLendBytes) return ReferenceState::kNotOffered;
  if (!can_send(route)) return ReferenceState::kAgain;
  const FrameKind kind = kind_of(route);
  const auto lend = [&](Rank peer) {
    TcpLink& to = link(peer, route.lane);
    to.outbox().lend(kind, nullptr, data, bytes, fingerprint, to.releases(), true);
    if (!to.has_lent()) lenders_.push_back(&to);
    to.lent(kind);
    write(to);
  };
  if (!route.multicast) {
    lend(route.peer);
    return ReferenceState::kSent;
  }
  ++multicast_[route.lane].sent;
  for_each_far(lend);
  return ReferenceState::kSent;
}

void TcpEndpoint::write(TcpLink& link) {
  if (!link.flush()) link.enlist();
}

/// Returns true if nothing waits to be written any more.
bool TcpEndpoint::write_unsent() {
  // flush() may append links to the list, so this goes from its end to its beginning.
  for (std::size_t i = unsent_.size(); i-- > 0;)
    if (unsent_[i]->flush()) unsent_.erase(unsent_.begin() + static_cast<std::ptrdiff_t>(i));
  return unsent_.empty();
}

void TcpEndpoint::look_around() {
  if (const std::uint64_t arrivals = streams_.arrivals(); arrivals != arrivals_) [[unlikely]] {
    arrivals_ = arrivals;
    for (TcpLink* one : made_) one->look_for_stream();
  }
  if (!unsent_.empty()) write_unsent();
}

bool TcpEndpoint::lenders_released(Rank* late) {
  std::erase_if(lenders_, [](TcpLink* one) {
    if (!one->has_lent()) return true;
    one->read_all();
    if (one->has_lent()) one->connect();
    return !one->has_lent() || one->forsaken();
  });
  if (!lenders_.empty()) *late = lenders_.front()->peer();
  return lenders_.empty();
}

bool TcpEndpoint::references_released(Rank* late) {
  if (unsent_.empty() && lenders_.empty()) [[likely]]
    return true;
  look_around();
  if (!unsent_.empty()) {
    *late = unsent_.front()->peer();
    unsent_.front()->read_all();  // the peer may read nothing until this rank has read what the peer sends
    return false;
  }
  return lenders_released(late);
}

void TcpEndpoint::revoke_references() {
  // The connections are cut, because nothing may be read from or written to the caller's memory any more, and the
  // communicator has failed for good.
  for (TcpLink* one : made_) one->cut();
  unsent_.clear();
  lenders_.clear();
}

Peek TcpEndpoint::recv_peek(Route route, Bytes bytes, Fingerprint fingerprint, std::byte* landing) {
  // A peer that lent a message must not wait until another peer's has come. While this rank reads from one peer only,
  // its next message to that peer takes the release along.
  const auto waits = [&](const TcpLink* one) { return one->tells_releases() && one->peer() != route.peer; };
  if (std::any_of(unsent_.begin(), unsent_.end(), waits)) write_unsent();
  const Peek peek = link(route.peer, route.lane).peek(kind_of(route), bytes, fingerprint, landing);
  if (peek.state == PeekState::kAgain) look_around();
  return peek;
}

void TcpEndpoint::recv_release(Route route, Bytes /*bytes*/) {
  TcpLink& from = link(route.peer, route.lane);
  switch (from.release(kind_of(route))) {
    case ReleaseNews::kAtOnce:
      return write(from);
    case ReleaseNews::kSoon:
      return from.enlist();
    case ReleaseNews::kWithTheNextMessage:
      return;
  }
}

std::uint64_t TcpEndpoint::bytes_moved() const {
  std::uint64_t bytes = 0;
  for (const TcpLink* one : made_) bytes += one->bytes_moved();
  return bytes;
}

std::size_t TcpEndpoint::memory_bytes() const {
  std::size_t bytes = 0;
  for (const TcpLink* one : made_) bytes += one->memory_bytes();
  for (const Multicast& lane : multicast_) {
    bytes += lane.free.memory_bytes();
    for (const TcpSlot& slot : lane.slots) bytes += slot.capacity();
  }
  return bytes;
}

void TcpEndpoint::make_progress() {
  look_around();
  for (TcpLink* one : made_) {
    one->read_all();
    if (one->owes()) one->connect();
  }
}

bool TcpEndpoint::delivered(Rank* late, const Receives& receives) {
  look_around();
  *late = kNoRank;
  for (TcpLink* one : made_) {
    const bool asked = !receives || receives(one->peer(), one->lane());
    if (asked && !one->delivered() && *late == kNoRank) *late = one->peer();
  }
  return *late == kNoRank;
}

bool TcpEndpoint::hears(Rank peer) {
  bool open = false;
  for (TcpLink* one : made_) open = (one->peer() == peer && one->hears()) || open;
  return open;
}

void TcpEndpoint::sleep(std::chrono::nanoseconds slice) {
  for (TcpLink* one : unsent_) one->watch_output(true);
  std::array<epoll_event, 64> events;
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(slice).count();
  const int count =
      ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), static_cast<int>(milliseconds));
  for (TcpLink* one : unsent_) one->watch_output(false);
  for (int i = 0; i < count; ++i) {
    auto* const one = static_cast<TcpLink*>(events[static_cast<std::size_t>(i)].data.ptr);
    if (one == nullptr) {
      std::uint64_t rings = 0;
      [[maybe_unused]] const ssize_t drained = ::read(doorbell_.get(), &rings, sizeof rings);
      continue;
    }
    // Whatever has arrived is read, because every sleep would end at once if it were left in the socket.
    one->read_all();
    if (one->owes()) one->connect();
  }
  look_around();
}

void TcpEndpoint::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t rung = ::write(doorbell_.get(), &one, sizeof one);
}

}  // namespace tutti

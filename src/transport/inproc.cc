#include "transport/inproc.h"

#include "core/clock.h"
#include "core/no_cancel.h"

namespace tutti {
namespace {

std::size_t index(int value) { return static_cast<std::size_t>(value); }

}  // namespace

InprocFabric::InprocFabric(int ranks, int lanes, Bytes max_message)
    : ranks_(ranks), lanes_(lanes), max_message_(max_message), queues_(index(ranks) * index(ranks) * index(lanes) * 2) {
  for (int i = 0; i < ranks; ++i) {
    sleepers_.emplace_back();
    boards_.push_back(std::make_unique<CallBoard>());
  }
}

InprocFabric::Queue& InprocFabric::queue(Rank from, Rank to, bool multicast, std::uint16_t lane) {
  return queues_[((index(from.value) * index(ranks_) + index(to.value)) * index(lanes_) + lane) * 2 +
                 (multicast ? 1 : 0)];
}

void InprocFabric::wake(Rank rank) {
  Sleeper& sleeper = sleepers_[index(rank.value)];
  if (!sleeper.announced) return;
  sleeper.woken = true;
  sleeper.changed.notify_all();
}

InprocEndpoint::InprocEndpoint(std::shared_ptr<InprocFabric> fabric, Rank rank)
    : fabric_(std::move(fabric)), rank_(rank), claims_(index(fabric_->ranks_ + 1) * index(fabric_->lanes_)) {}

std::vector<Rank> InprocEndpoint::readers(Route route) const {
  if (!route.multicast) return {route.peer};
  std::vector<Rank> others;
  for (Rank r{0}; r.value < fabric_->ranks_; ++r)
    if (r != rank_) others.push_back(r);
  return others;
}

std::shared_ptr<InprocFabric::Message>& InprocEndpoint::open_claim(Route route) {
  const int target = route.multicast ? fabric_->ranks_ : route.peer.value;
  return claims_[index(target) * index(fabric_->lanes_) + route.lane];
}

std::byte* InprocEndpoint::send_claim(Route route, Bytes bytes) {
  {
    const MutexLock lock(fabric_->mutex_);
    for (const Rank reader : readers(route))
      if (fabric_->queue(rank_, reader, route.multicast, route.lane).size() == InprocFabric::kCredits) return nullptr;
  }
  std::shared_ptr<InprocFabric::Message>& claim = open_claim(route);
  if (!claim || claim->size != bytes) {
    claim = std::make_shared<InprocFabric::Message>();
    claim->size = bytes;
    claim->memory.resize(bytes.value / kCacheLine + 1);  // a message of zero bytes has an address too
  }
  return claim->memory.front().bytes.data();
}

void InprocEndpoint::send_commit(Route route, Bytes /*bytes*/, Fingerprint fingerprint) {
  const std::shared_ptr<InprocFabric::Message> message = std::move(open_claim(route));  // one, in many queues
  message->fingerprint = fingerprint;
  const MutexLock lock(fabric_->mutex_);
  for (const Rank reader : readers(route)) {
    fabric_->queue(rank_, reader, route.multicast, route.lane).push_back(message);
    fabric_->wake(reader);
  }
}

Peek InprocEndpoint::recv_peek(Route route, Bytes bytes, Fingerprint fingerprint) {
  const MutexLock lock(fabric_->mutex_);
  const InprocFabric::Queue& queue = fabric_->queue(route.peer, rank_, route.multicast, route.lane);
  if (queue.empty()) return {};
  const InprocFabric::Message& message = *queue.front();
  if (message.size != bytes || message.fingerprint != fingerprint) return {PeekState::kMismatch, nullptr};
  return {PeekState::kReady, message.memory.front().bytes.data()};
}

void InprocEndpoint::recv_release(Route route, Bytes /*bytes*/) {
  const MutexLock lock(fabric_->mutex_);
  fabric_->queue(route.peer, rank_, route.multicast, route.lane).pop_front();
  fabric_->wake(route.peer);
}

void InprocEndpoint::announce_sleep(Rank) {
  const MutexLock lock(fabric_->mutex_);
  InprocFabric::Sleeper& sleeper = fabric_->sleepers_[index(rank_.value)];
  sleeper.announced = true;
  sleeper.woken = false;
}

void InprocEndpoint::cancel_sleep() {
  const MutexLock lock(fabric_->mutex_);
  fabric_->sleepers_[index(rank_.value)].announced = false;
}

void InprocEndpoint::sleep(std::chrono::nanoseconds slice) {
  const NoCancel no_cancel;
  MutexLock lock(fabric_->mutex_);
  InprocFabric::Sleeper& sleeper = fabric_->sleepers_[index(rank_.value)];
  const Clock::time_point end = Clock::now() + slice;
  while (!sleeper.woken && sleeper.changed.wait_until(lock, end)) continue;
  sleeper.announced = false;
}

void InprocEndpoint::wake() {
  const MutexLock lock(fabric_->mutex_);
  fabric_->wake(rank_);
}

}  // namespace tutti

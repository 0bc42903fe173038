// The inproc endpoint, the reference of the transport contract. Ranks are threads of one process, a link is a queue of
// messages, everything is under one mutex. It is slow and obvious: read it before the others.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <vector>

#include "core/mutex.h"
#include "transport/transport.h"

namespace tutti {

/// What the ranks share. It is made once, then handed to each rank's InprocEndpoint.
class InprocFabric {
 public:
  InprocFabric(int ranks, int lanes, Bytes max_message);

 private:
  friend class InprocEndpoint;
  static constexpr std::size_t kCredits = 2;

  struct alignas(kCacheLine) Line {
    std::array<std::byte, kCacheLine> bytes;
  };
  struct Message {
    Fingerprint fingerprint = 0;
    Bytes size;
    std::vector<Line> memory;  // whole lines, so that the data is aligned
  };
  using Queue = std::deque<std::shared_ptr<Message>>;
  struct Sleeper {
    bool announced = false;
    bool woken = false;
    ConditionVariable changed;
  };

  /// The queue from `from` to `to`, of the unicast link or of the multicast one.
  Queue& queue(Rank from, Rank to, bool multicast, std::uint16_t lane) TUTTI_REQUIRES(mutex_);
  void wake(Rank rank) TUTTI_REQUIRES(mutex_);

  const int ranks_;
  const int lanes_;
  const Bytes max_message_;
  Mutex mutex_;
  std::vector<Queue> queues_ TUTTI_GUARDED_BY(mutex_);     // the bytes of their messages are not guarded
  std::deque<Sleeper> sleepers_ TUTTI_GUARDED_BY(mutex_);  // by rank
  std::vector<std::unique_ptr<CallBoard>> boards_;         // by rank
};

/// One rank's end. Satisfies Endpoint, except that it allocates a message at each claim.
class InprocEndpoint {
 public:
  InprocEndpoint(std::shared_ptr<InprocFabric> fabric, Rank rank);

  Rank rank() const { return rank_; }
  int ranks() const { return fabric_->ranks_; }
  Capabilities capabilities() const { return {fabric_->max_message_, InprocFabric::kCredits, fabric_->max_message_}; }

  std::byte* send_claim(Route route, Bytes bytes);
  void send_commit(Route route, Bytes bytes, Fingerprint fingerprint);
  ReferenceState send_reference(Route, const std::byte*, Bytes, Fingerprint) { return ReferenceState::kNotOffered; }
  bool references_released(Rank*) const { return true; }
  void revoke_references() {}
  Peek recv_peek(Route route, Bytes bytes, Fingerprint fingerprint);
  void recv_release(Route route, Bytes bytes);

  void announce_sleep(Rank only);
  void cancel_sleep();
  void sleep(std::chrono::nanoseconds slice);
  void wake();

  CallBoard& board() { return *fabric_->boards_[static_cast<std::size_t>(rank_.value)]; }
  const CallBoard* board(Rank peer) const { return fabric_->boards_[static_cast<std::size_t>(peer.value)].get(); }

 private:
  std::vector<Rank> readers(Route route) const;
  std::shared_ptr<InprocFabric::Message>& open_claim(Route route);

  std::shared_ptr<InprocFabric> fabric_;
  const Rank rank_;
  std::vector<std::shared_ptr<InprocFabric::Message>> claims_;  // one a link that this rank writes
};
static_assert(Endpoint<InprocEndpoint>);

}  // namespace tutti

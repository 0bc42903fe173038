// The finalize exchange is how the processes of a communicator hear that all ranks have come to Finalize, if each is
// connected to a few others only.
//
// The finalize tree counts those that have come. If somebody does not come, each that has come is an event, which
// travels as the end of a rank does, and so is what each that is late has finished.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "comm/membership/board_exchange.h"
#include "comm/membership/control_connections.h"
#include "comm/membership/finalize_tree.h"
#include "comm/membership/member_table.h"
#include "comm/membership/peer_process.h"
#include "comm/messages/messages.h"
#include "net/event_loop.h"

namespace tutti {

/// One per process membership. All functions are called in the loop's thread.
class FinalizeExchange {
 public:
  struct Callbacks {
    std::function<void(const std::vector<MemberEvent>&)> send_events;  ///< to all connected processes
    std::function<void()> on_all;                                      ///< all have come; called once
  };

  /// `connections`, `boards` and `members` outlive this, and are open.
  FinalizeExchange(EventLoop& loop, ControlConnections& connections, BoardExchange& boards, MemberTable& members,
                   Callbacks callbacks);

  /// Ranks that share a core come one after the other, so that one counts as late after a longer time.
  void set_pace(int ranks_per_core) { ranks_per_core_ = ranks_per_core; }
  /// A rank of this process has come, with this number as that of its Finalize. The copies of boards show it.
  void come(Rank rank, std::uint64_t sequence);
  /// Some rank waits in Finalize, its operation with this number. The ranks of this process that are late tell that
  /// they have finished the operation before, once they have, because that may be all that it waits for. If numbers
  /// differ, the highest counts, and those that wait with another one ask.
  void hear_that_some_wait(std::uint64_t sequence);
  Status take(const PeerProcess& peer, ByteView payload);
  /// Sends what a peer may have missed: that all ranks have come or, to the parent, that all below have.
  void send_state(PeerProcess& peer);
  /// Whether all ranks of the communicator have come, as far as is known here.
  bool all_have_come() const { return tree_.all() != 0; }
  /// Call it before the loop ends. Nothing is sent any more.
  void close();

 private:
  void tell_those_above();
  void all_come(std::uint64_t sequence);
  void wait_for_late_ranks();
  void tell_who_has_come();
  void tell_what_late_ranks_finished();

  EventLoop& loop_;
  ControlConnections& connections_;
  BoardExchange& boards_;
  MemberTable& members_;
  const Callbacks callbacks_;
  FinalizeTree tree_;
  EventLoop::TimerId late_timer_ = 0;
  std::uint64_t awaited_ = 0;  // the highest number of a Finalize in which some rank waits
  int ranks_per_core_ = 1;
  bool closed_ = false;
};

}  // namespace tutti

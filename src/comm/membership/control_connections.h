// The control connections of a process membership lead to other processes of the communicator.
//
// In the join they lead to the neighbours (process_order.h). Others are added later, when somebody needs them, or in
// place of those whose process has ended.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/membership/member_table.h"
#include "comm/membership/peer_process.h"
#include "comm/membership/process_order.h"
#include "comm/messages/messages.h"
#include "core/mutex.h"
#include "net/connection.h"
#include "net/event_loop.h"

namespace tutti {

/// Loop thread only, except where noted.
class ControlConnections {
 public:
  using Peers = std::map<ProcessId, std::shared_ptr<PeerProcess>>;

  /// What holds for all of them.
  struct Terms {
    std::size_t mesh = kMeshProcesses;  ///< if there are at most so many processes, each connects to all others
    double reconnect_seconds = 0;       ///< how long a lost connection is tried again
    bool tls = false;                   ///< connections between hosts must be encrypted
    std::string host_id;                ///< of this process
  };

  /// `owner` hears what happens to the peers. `secret` is the communicator's, `own` is this process.
  ControlConnections(PeerOwner& owner, EventLoop& loop, const KeyId& id, const Key& secret, const ProcessId& own)
      : owner_(owner), loop_(loop), id_(id), secret_(secret), own_(own) {}
  ControlConnections(const ControlConnections&) = delete;
  ControlConnections& operator=(const ControlConnections&) = delete;

  /// Call it before all that follows.
  void set_terms(const Terms& terms) { terms_ = terms; }
  const Terms& terms() const { return terms_; }
  const ProcessId& own() const { return own_; }
  /// Makes the secret of connections to a process. If two hosts have the same address (a bridge's), a dialer may reach
  /// another process than it meant; then the handshake fails, and it tries the next address.
  Status key_for(const ProcessId& process, Key* key) const;

  /// The table has come. `self` is the place of this process in the order.
  void open(std::shared_ptr<MemberTable> member_table, std::unique_ptr<ProcessOrder> order, std::size_t self);
  /// Any thread, once open.
  const ProcessOrder& order() const { return *order_; }
  std::size_t self() const { return self_; }
  /// The join is over: nobody waits for connections that are added from now on.
  void end_join() { late_ = true; }
  void close();

  const Peers& peers() const { return peers_; }
  /// Returns nullptr if no connection to the process was needed so far.
  std::shared_ptr<PeerProcess> find(const ProcessId& process) const;
  /// Adds a process, and does not connect yet. `dials`: this end is the one that connects.
  std::shared_ptr<PeerProcess> add(const Member& first, const std::vector<Rank>& ranks, bool dials);
  std::vector<Rank> ranks_at(std::size_t place) const;
  std::shared_ptr<PeerProcess> add_at(std::size_t place, bool dials);
  /// Adds those that this process connects to in the join. Of each pair the later one in the order dials. The process
  /// that the table came from is among them, and is there already.
  void add_neighbours();
  /// Returns a process, which it dials if there is no connection yet. `allowance` says how many more may be dialled; if
  /// none is left, it returns nullptr.
  std::shared_ptr<PeerProcess> reach(std::size_t place, int* allowance);
  /// Dials the processes that this one should be connected to now that others have ended, so that all that are left can
  /// reach each other.
  void mend();

  /// Whether any rank of the process at a place lives, as far as is known here.
  bool is_present(std::size_t place) const;
  /// The control connection to a process; nullptr if there is none, or it is down.
  const Connection* connection_to(const ProcessId& process) const;
  /// Whether a data connection to a process needs no watch of its own, because the control connection goes the same way
  /// and notices a dead link.
  bool watches(const ProcessId& process, const Connection& data) const;

  /// send() reaches this connection of a peer until list_senders() is called after the peer has lost it.
  void add_sender(const std::shared_ptr<Connection>& connection);
  /// send() reaches the connections that peers have now.
  void list_senders();
  /// Sends to all that are connected. Any thread; does not block.
  void send(MessageType type, ByteView payload);
  /// Whether the systems of all that are connected have all that was sent. Any thread; does not block.
  bool delivered();

 private:
  PeerOwner& owner_;
  EventLoop& loop_;
  const KeyId id_;
  const Key secret_;
  const ProcessId own_;
  Terms terms_;
  std::shared_ptr<MemberTable> member_table_;
  std::unique_ptr<ProcessOrder> order_;  // of the table's members, set together with it
  std::size_t self_ = 0;                 // the place of this process in the order
  Peers peers_;
  bool late_ = false;    // the join is over
  bool closed_ = false;  // no process is dialled any more

  Mutex send_mutex_;
  std::vector<std::shared_ptr<Connection>> senders_ TUTTI_GUARDED_BY(send_mutex_);  // any thread sends on them
};

}  // namespace tutti

// The control connections of a process membership: which other processes of the communicator this one is connected to,
// or wants to be.
//
// In the join those are its neighbours (process_order.h). Later others are added when somebody needs them, and in place
// of those whose process has ended.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/membership/member_table.h"
#include "comm/membership/messages.h"
#include "comm/membership/peer_process.h"
#include "comm/membership/process_order.h"
#include "core/mutex.h"
#include "net/connection.h"
#include "net/event_loop.h"

namespace tutti {

/// Loop thread only, except where noted.
class ControlConnections {
 public:
  using Peers = std::map<ProcessId, std::shared_ptr<PeerProcess>>;

  /// The same for all of them.
  struct Terms {
    std::size_t mesh = kMeshProcesses;  ///< up to so many processes each is connected to all others
    double reconnect_seconds = 0;       ///< how long a lost connection is tried again
    bool tls = false;                   ///< connections between hosts must be encrypted
    std::string host_id;                ///< of this process
  };

  /// `owner` is told what happens to the peers. `secret` is the communicator's, `own` this process.
  ControlConnections(PeerOwner& owner, EventLoop& loop, const KeyId& id, const Key& secret, const ProcessId& own)
      : owner_(owner), loop_(loop), id_(id), secret_(secret), own_(own) {}
  ControlConnections(const ControlConnections&) = delete;
  ControlConnections& operator=(const ControlConnections&) = delete;

  /// Before all that follows.
  void set_terms(const Terms& terms) { terms_ = terms; }
  const Terms& terms() const { return terms_; }
  const ProcessId& own() const { return own_; }
  /// The secret of connections to a process: who dials an address that two hosts share (a bridge's) and reaches another
  /// process than it meant fails the handshake, and tries the next address.
  Status key_for(const ProcessId& process, Key* key) const;

  /// The table has come. `self`: the place of this process in the order.
  void open(std::shared_ptr<MemberTable> member_table, std::unique_ptr<ProcessOrder> order, std::size_t self);
  /// Any thread, once open.
  const ProcessOrder& order() const { return *order_; }
  std::size_t self() const { return self_; }
  /// The join is over: what is made from now on is not waited for.
  void end_join() { late_ = true; }
  void close();

  const Peers& peers() const { return peers_; }
  /// nullptr: it was not needed so far.
  std::shared_ptr<PeerProcess> find(const ProcessId& process) const;
  /// Does not connect yet. `dials`: it is for this end to do so.
  std::shared_ptr<PeerProcess> add(const Member& first, const std::vector<Rank>& ranks, bool dials);
  std::shared_ptr<PeerProcess> add_at(std::size_t place, bool dials);
  /// Those that this process is connected to in the join. Of each pair the later one dials. The process that the table
  /// came from is one of them, and there already.
  void add_neighbours();
  /// A process that this one may not be connected to yet: then it dials. `allowance`: how many more may be dialled;
  /// with none left the answer is nullptr.
  std::shared_ptr<PeerProcess> reach(std::size_t place, int* allowance);
  /// Whoever is left stays connected to whoever is left: dials those whom this process should now be connected to.
  void mend();

  /// Whether any rank of the process at a place lives, as far as it said.
  bool is_present(std::size_t place) const;
  /// The control connection to a process; nullptr: there is none, or it is down.
  const Connection* connection_to(const ProcessId& process) const;
  /// Whether a data connection to a process needs no watch of its own: the control connection goes the same way, and
  /// notices a dead link.
  bool watches(const ProcessId& process, const Connection& data) const;

  /// send() reaches this connection, which is a peer's, from now on, until the peer has lost it and list_senders() is
  /// called.
  void add_sender(const std::shared_ptr<Connection>& connection);
  /// send() reaches the connections that peers have now.
  void list_senders();
  /// To all that are connected. Any thread, does not block.
  void send(MessageType type, ByteView payload);

 private:
  PeerOwner& owner_;
  EventLoop& loop_;
  const KeyId id_;
  const Key secret_;
  const ProcessId own_;
  Terms terms_;
  std::shared_ptr<MemberTable> member_table_;
  std::unique_ptr<ProcessOrder> order_;  // as the member table
  std::size_t self_ = 0;                 // in the order
  Peers peers_;
  bool late_ = false;    // the join is over
  bool closed_ = false;  // nobody is dialled any more

  Mutex send_mutex_;
  std::vector<std::shared_ptr<Connection>> senders_ TUTTI_GUARDED_BY(send_mutex_);  // any thread sends to them
};

}  // namespace tutti

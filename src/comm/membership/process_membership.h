// A process membership is the ranks of this process in one communicator. It exchanges with the communicator's other
// processes how ranks end, why the communicator failed, and how far its calls are.
//
// If there are few processes, each is connected to all others. If there are many, each is connected to a few, and
// passes on what it hears of ranks and causes the first time that it hears it (process_order.h,
// docs/design/rendezvous.md).
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "comm/membership/board_exchange.h"
#include "comm/membership/control_connections.h"
#include "comm/membership/data_connector.h"
#include "comm/membership/finalize_exchange.h"
#include "comm/membership/member_event_batch.h"
#include "comm/membership/member_table.h"
#include "comm/membership/membership_linker.h"
#include "comm/membership/peer_process.h"
#include "comm/membership/process_listener.h"
#include "comm/messages/messages.h"
#include "net/connection.h"
#include "transport/shm/rank_segments.h"

namespace tutti {

class Hub;

/// The first local join of an id makes the group, which ends when the last local rank has left. The hub must outlive
/// it, so memberships and joins hold on to the hub.
class ProcessMembership final : public PeerOwner, public std::enable_shared_from_this<ProcessMembership> {
 public:
  /// A rank of this process that joins. All but the number is taken from the first one of a membership.
  struct LocalRank {
    Rank rank = kNoRank;
    bool tcp = false;  ///< data travels by TCP within a host, too
    ControlConnections::Terms terms;
  };

  ProcessMembership(Hub& hub, const KeyId& id, const Key& secret);

  // Loop thread only.
  Status key_for(const ProcessId& process, Key* key) const { return connections_.key_for(process, key); }
  /// Returns the linker, which connects the rank to the others and then calls `linked`. Returns nullptr if the
  /// membership has begun without this rank, or has it already.
  std::shared_ptr<MembershipLinker> add_local(const LocalRank& local, MembershipLinker::Linked linked);
  /// The local rank is gone. The membership closes when the last one is.
  void remove_local(Rank rank);
  /// Takes over an accepted control connection.
  void serve(const std::shared_ptr<Connection>& connection);
  void say_all_goodbyes();
  /// Ends the join of this process's ranks, if it has not ended; this process is to blame.
  void fail_join(const Status& why);
  /// The service thread ends: the joins that have not ended are let go.
  void drop_joins() {
    if (linker_) linker_->drop_locals();
  }
  /// Ends the join or, after it, the communicator; this process is to blame.
  void fail_all(const Status& why);
  /// The memory of the ranks that is mapped here. Call it once the group is linked.
  const RankSegments& segments() const { return segments_; }
  /// Whether the memory of the host could be mapped.
  bool maps_host() const { return maps_host_; }
  DataConnector& connector() { return *connector_; }
  /// Whether connections between hosts must be encrypted; the same on all ranks, or their join fails.
  bool tls() const { return connections_.terms().tls; }
  /// Whether another process may connect over TCP: before the join has ended, and later if a rank is on another host or
  /// data travels by TCP within a host.
  bool expects_tcp() const;
  /// All ranks are connected to their neighbours. `apart`: some ranks of a host do not share its memory, so their data
  /// travels by TCP. `ranks_per_core`: of all ranks, if all run on the same cores.
  void let_go(bool apart, int ranks_per_core) {
    let_go_ = true;
    tcp_ = tcp_ || apart;
    events_.set_pace(ranks_per_core);
    if (finalize_) finalize_->set_pace(ranks_per_core);
  }
  bool single_process() const { return order().size() == 1; }
  /// Called once, before there is a table.
  void set_listener(std::shared_ptr<ProcessListener> listener) { listener_ = std::move(listener); }
  const std::shared_ptr<ProcessListener>& listener() const { return listener_; }
  /// Sends to the process at this place, if any of its ranks lives. If it is not connected, it is dialled, and the
  /// listener hears of the connection.
  void send_to(std::size_t place, MessageType type, ByteView payload);
  /// See Membership.
  void ask_boards(const std::vector<Rank>& of, int dials);

  // What follows is for its linker. Loop thread only.
  ControlConnections& connections() { return connections_; }
  /// Random, and the same in all processes.
  Status comm_id(std::uint64_t* comm_id) const;
  /// The table has come, and the order is that of its members; `self` is the place of this process in it.
  void open(const std::shared_ptr<MemberTable>& members, std::unique_ptr<ProcessOrder> order, std::size_t self);
  /// The local ranks that have not left.
  const std::set<Rank>& present_ranks() const { return present_ranks_; }
  /// The ranks of this process, those that left included. Call it once the group is open.
  const std::vector<Rank>& local_ranks() const { return local_ranks_; }
  /// Takes a connection on which a process has introduced itself.
  void attach(const ProcessId& process, const std::shared_ptr<Connection>& connection);
  void set_linked(RankSegments segments, bool maps_host);

  // PeerOwner
  Status on_message(PeerProcess& peer, MessageType type, ByteView payload) override;
  void on_connected(PeerProcess& peer, bool again) override;
  void on_late_return(Connection& connection) override;
  void on_disconnected(PeerProcess& peer) override;
  void on_unreachable(PeerProcess& peer, const Status& why) override;
  void on_unanswered(PeerProcess& peer) override;
  void on_death(PeerProcess& peer, const std::string& note) override;
  bool lives(const PeerProcess& peer) const override;

  // What follows is for any thread, once the group is linked.
  /// See Membership.
  Status secret_of_child(const KeyId& nonce, Key* secret) const;
  const std::shared_ptr<MemberTable>& member_table() const { return member_table_; }
  void post_cause(Rank from, const FailureCause& cause);
  /// The cause is for the ranks of this process alone, because the other processes have it from elsewhere.
  void post_cause_here(const FailureCause& cause) {
    if (member_table_->set_cause(cause)) member_table_->notify();
  }
  void say_goodbye(Rank from, std::uint64_t last_sequence, bool finished_by_all);
  bool delivered() { return connections_.delivered(); }
  /// The rank gives up its membership without a goodbye. If `why` is an error, its text is sent to the others.
  void abandon(Rank from, const Status& why);
  BoardExchange& boards() { return *boards_; }
  void publish_board(Rank of);

 private:
  std::shared_ptr<DataConnector> make_connector();
  const ProcessOrder& order() const { return connections_.order(); }
  bool is_linking() const { return linker_ && !linker_->is_finished(); }
  Status on_stranger_message(Connection* from, MessageType type, ByteView payload);
  Status on_linker_message(PeerProcess& peer, MessageType type, ByteView payload);
  Status take_cause(const PeerProcess& peer, ByteView payload);
  Status take_events(const PeerProcess& peer, ByteView payload);
  bool apply(const MemberEvent& item);
  void forward(const std::vector<MemberEvent>& items);
  void on_all_in_finalize();
  bool all_have_come() const { return finalize_ && finalize_->all_have_come(); }
  void send_state(PeerProcess& peer);
  void send_cause(Connection& connection) const;
  void send_events(const std::vector<MemberEvent>& items);
  void mend_later(std::chrono::milliseconds pause);
  void wake_listener() noexcept;
  bool is_local(Rank rank) const;
  void close();

  Hub& hub_;
  const KeyId id_;
  const Key secret_;
  ControlConnections connections_;
  const std::shared_ptr<DataConnector> connector_;
  MemberEventBatch events_;
  std::shared_ptr<MembershipLinker> linker_;  // nullptr once it is linked
  std::set<Rank> present_ranks_;              // the local ranks that have not left
  std::vector<Rank> local_ranks_;  // the local ranks, those that left included; set together with the member table
  std::map<Connection*, std::shared_ptr<Connection>> unintroduced_;  // accepted, the process is not known yet
  bool tcp_ = false;                                                 // data travels by TCP also within a host
  bool let_go_ = false;
  bool maps_host_ = false;
  RankSegments segments_;
  EventLoop::TimerId mend_timer_ = 0;
  std::shared_ptr<ProcessListener> listener_;
  std::unique_ptr<BoardExchange> boards_;       // set together with the member table
  std::unique_ptr<FinalizeExchange> finalize_;  // nullptr in a mesh, where each board reaches all
  std::shared_ptr<MemberTable> member_table_;   // set before any other thread can see the process as linked
};

}  // namespace tutti

// A group: the ranks of this process in one communicator, and their control connections to other processes of it.
//
// Few processes are all connected to all; of many each is connected to a few, and what it hears of ranks and causes it
// passes on, once, when it was new (process_order.h, docs/design/rendezvous.md).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/membership/board_exchange.h"
#include "comm/membership/data_connector.h"
#include "comm/membership/host_memory.h"
#include "comm/membership/member_event_batch.h"
#include "comm/membership/member_table.h"
#include "comm/membership/messages.h"
#include "comm/membership/peer_process.h"
#include "comm/membership/process_order.h"
#include "core/mutex.h"
#include "net/connection.h"
#include "net/dialer.h"
#include "transport/shm/segment.h"

namespace tutti {

class Hub;

/// Made by the first local join of an id, gone when the last local rank has left. The hub must outlive it: memberships
/// and joins hold on to the hub.
class Group final : public PeerOwner, public std::enable_shared_from_this<Group> {
 public:
  /// What a local join wants to know. Called in the loop's thread, once: `why` ok: connected, and the memory of the
  /// host is mapped if it can be.
  using Linked = std::function<void(const Status& why)>;

  /// A rank of this process that joins. The first one of a group decides all but the number.
  struct LocalRank {
    Rank rank = kNoRank;
    std::size_t mesh = 32;         ///< up to so many processes each is connected to all others
    double reconnect_seconds = 0;  ///< how long a lost connection is tried again
    bool tls = false;              ///< connections between hosts must be encrypted
    bool tcp = false;              ///< data travels by TCP within a host, too
    std::string host_id;
  };

  Group(Hub& hub, const KeyId& id, const Key& secret);

  // Loop thread only.
  /// The secret of connections to a process: who dials an address that two hosts share (a bridge's) and reaches another
  /// process than it meant fails the handshake, and tries the next address.
  Status key_for(const ProcessId& process, Key* key) const;
  /// False: the group has begun without this rank, or has it.
  bool add_local(const LocalRank& local, Linked linked);
  /// The local rank is gone; the group closes with the last one.
  void remove_local(Rank rank);
  /// The root says where the table comes from.
  Status follow(const PlaceMessage& message);
  /// The table has come, from the root or the process that has it first.
  Status begin(ByteView table);
  /// An accepted control connection.
  void serve(const std::shared_ptr<Connection>& connection);
  void say_all_goodbyes();
  /// This process is to blame for what ends the join of its ranks, if that has not ended, ...
  void fail_join(const Status& why);
  /// ... or also the communicator.
  void fail_all(const Status& why);
  /// Once linked.
  const std::vector<std::shared_ptr<Segment>>& segments() const { return segments_; }
  /// Whether the memory of the host could be mapped.
  bool maps_host() const { return memory_ == Memory::kMapped; }
  DataConnector& connector() { return *connector_; }
  /// Whether connections between hosts must be encrypted; the same on all ranks, or their join fails.
  bool tls() const { return tls_; }
  /// Names the processes that the join still waits for here: "rank 3 (process 12 on host b) cannot be reached:
  /// 10.0.0.2:4000: no answer yet". Empty if there are none.
  std::string unreached() const;
  /// Whether a process may come over TCP: until a rank of this one may go, and as long as there is one on another host
  /// or data travels by TCP within one.
  bool expects_tcp() const;
  /// All ranks are connected. `apart`: some of a host do not share its memory, and what they say travels by TCP.
  void let_go(bool apart) {
    let_go_ = true;
    tcp_ = tcp_ || apart;
  }
  bool single_process() const { return order_->size() == 1; }
  void ask_boards(const std::vector<Rank>& of);

  // Any thread, once linked.
  /// See Membership.
  Status secret_of_child(const KeyId& nonce, Key* secret) const;
  const std::shared_ptr<MemberTable>& member_table() const { return member_table_; }
  void post_cause(Rank from, const FailureCause& cause);
  void say_goodbye(Rank from, std::uint64_t last_sequence);
  /// The rank gives up its membership without a goodbye. If `why` is an error, its text is told to the others.
  void abandon(Rank from, const Status& why);
  BoardExchange& boards() { return *boards_; }
  void publish_board(Rank of);

 private:
  enum class Memory { kAwaited, kMapped, kApart };

  // PeerOwner
  Status on_message(PeerProcess& peer, MessageType type, ByteView payload) override;
  void on_connected(PeerProcess& peer, bool again) override;
  void on_late_return(Connection& connection) override;
  void on_disconnected(PeerProcess& peer) override;
  void on_unreachable(PeerProcess& peer, const Status& why) override;
  void on_unanswered(PeerProcess& peer) override;
  void on_death(PeerProcess& peer, const std::string& note) override;
  bool lives(const PeerProcess& peer) const override;

  void make_peers();
  void dial_next();
  std::shared_ptr<PeerProcess> make_peer(const Member& first, const std::vector<Rank>& ranks, bool dials);
  std::shared_ptr<PeerProcess> make_peer_at(std::size_t place, bool dials);
  std::shared_ptr<PeerProcess> reach(std::size_t place, int* allowance);
  std::shared_ptr<DataConnector> make_connector();
  const Connection* control_of(const ProcessId& process) const;
  bool watches(const ProcessId& to, const Connection& data) const;
  void park(const ProcessId& process, const std::shared_ptr<Connection>& connection);
  void attach(const ProcessId& process, const std::shared_ptr<Connection>& connection);
  Status on_stranger_message(Connection* from, MessageType type, ByteView payload);
  Status take_table(PeerProcess& peer, ByteView payload);
  HostMemory host_layout() const;
  void find_memory();
  Status take_memory(const PeerProcess& peer, ByteView payload);
  void have_memory(Memory outcome, std::shared_ptr<Segment> whole);
  void send_memory(PeerProcess& peer);
  Status take_linked(PeerProcess& peer);
  Status take_cause(const PeerProcess& peer, ByteView payload);
  Status take_events(const PeerProcess& peer, ByteView payload);
  bool apply(const MemberEvent& item);
  void forward(const std::vector<MemberEvent>& items);
  void greet(PeerProcess& peer);
  void send_state(PeerProcess& peer);
  void send_cause(Connection& connection) const;
  void send_events(const std::vector<MemberEvent>& items);
  void mend_later(std::chrono::milliseconds pause);
  void mend();
  bool is_local(Rank rank) const;
  bool present(std::size_t place) const;
  void check_linked();
  void finish_linking(const Status& why);
  void send_to_peers(MessageType type, ByteView payload);
  void list_senders();
  void close();

  Hub& hub_;
  const KeyId id_;
  const Key secret_;
  const std::shared_ptr<DataConnector> connector_;
  MemberEventBatch events_;
  double reconnect_seconds_ = 0;
  bool tls_ = false;
  bool let_go_ = false;
  bool tcp_ = false;  // data travels by TCP within a host
  std::size_t mesh_ = 0;
  std::string host_id_;
  std::vector<Rank> here_;         // the ranks of this process, those that left included; as the member table
  std::map<Rank, Linked> locals_;  // called, and empty, once linked
  bool finished_ = false;          // linked, or failed to
  std::map<Connection*, std::shared_ptr<Connection>> unintroduced_;  // accepted, not introduced yet
  std::map<ProcessId, std::shared_ptr<Connection>> early_;           // introduced before the table came
  std::map<ProcessId, std::shared_ptr<PeerProcess>> peers_;
  std::size_t unlinked_ = 0;                           // of them
  std::vector<std::shared_ptr<PeerProcess>> to_dial_;  // of them
  std::vector<std::byte> table_;                       // as it travels, until linked
  Memory memory_ = Memory::kAwaited;
  std::shared_ptr<Segment> whole_;  // the host's, until linked
  std::vector<std::shared_ptr<Segment>> segments_;
  EventLoop::TimerId mend_timer_ = 0;
  std::unique_ptr<ProcessOrder> order_;        // as the member table
  std::size_t self_ = 0;                       // in the order
  std::unique_ptr<BoardExchange> boards_;      // as the member table
  std::shared_ptr<MemberTable> member_table_;  // set before any other thread can see the group as linked

  Mutex send_mutex_;
  std::vector<std::shared_ptr<Connection>> senders_ TUTTI_GUARDED_BY(send_mutex_);  // any thread sends to them
};

}  // namespace tutti

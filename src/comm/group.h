// A group: the ranks of this process in one communicator, and their control connections to the other processes of it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "comm/board_exchange.h"
#include "comm/connection.h"
#include "comm/dialer.h"
#include "comm/join.h"
#include "comm/peer_process.h"
#include "comm/roster.h"
#include "comm/stream_desk.h"
#include "comm/wire.h"
#include "transport/segment.h"

namespace tutti {

class Hub;

/// Made by the first local join of an id, gone when the last local rank has left. The hub must outlive it: memberships
/// and joins hold on to the hub.
class Group final : public PeerOwner, public std::enable_shared_from_this<Group> {
 public:
  /// What a local join wants to know. Called in the loop's thread, once: `why` ok: all segments are mapped that can be.
  using Linked = std::function<void(const Status& why)>;

  Group(Hub& hub, const KeyId& id, const Key& secret);

  // Loop thread only.
  /// The secret of connections to a process: who dials an address that two hosts share (a bridge's) and reaches another
  /// process than it meant fails the handshake, and tries the next address.
  Status key_for(const ProcessId& process, Key* key) const;
  /// False: the group has begun without this rank, or has it.
  bool add_local(const JoinRequest& request, Linked linked);
  /// The local rank is gone; the group closes with the last one.
  void remove_local(Rank rank);
  /// The table has come, to the first local rank or another one.
  void begin(const TableMessage& table);
  /// An accepted control connection.
  void serve(const std::shared_ptr<Connection>& connection);
  void say_all_goodbyes();
  /// Once linked.
  const std::vector<std::shared_ptr<Segment>>& segments() const { return segments_; }
  /// Whether the segments of all ranks with this one's host id could be mapped.
  bool maps_host_of(Rank rank) const;
  StreamDesk& desk() { return *desk_; }
  /// Whether connections between hosts must be encrypted; the same on all ranks, or their join fails.
  bool tls() const { return tls_; }
  /// Not yet connected: "rank 3 (process 12 on host b) has not answered: 10.0.0.2:4000: no answer yet"; empty: nobody
  /// whom this process dials.
  std::string unreached() const;
  bool one_process() const { return peers_.empty(); }
  void ask_boards(const std::vector<Rank>& of);

  // Any thread, once linked.
  const std::shared_ptr<Roster>& roster() const { return roster_; }
  void post_cause(Rank from, const Cause& cause);
  void say_goodbye(Rank from, std::uint64_t last_sequence);
  /// The rank gives its membership up without a goodbye.
  void abandon(Rank from);
  BoardExchange& boards() { return *boards_; }
  void publish_board(Rank of);

 private:
  struct Local {
    std::shared_ptr<Segment> segment;
    Linked linked;
  };

  // PeerOwner
  Status on_message(PeerProcess& peer, MessageType type, ByteView payload) override;
  void on_connected(PeerProcess& peer, bool again) override;
  void on_late_return(Connection& connection) override;
  void on_disconnected(PeerProcess& peer) override;
  void on_unreachable(PeerProcess& peer, const Status& why) override;
  void on_death(PeerProcess& peer, const std::string& note) override;
  bool lives(const PeerProcess& peer) const override;

  void make_peers();
  void dial_next();
  std::shared_ptr<PeerProcess> make_peer(const std::vector<Rank>& ranks, bool dials);
  std::shared_ptr<StreamDesk> make_desk();
  void attach(const ProcessId& process, const std::shared_ptr<Connection>& connection);
  Status on_stranger_message(Connection* from, MessageType type, ByteView payload);
  Status take_segment(const PeerProcess& peer, ByteView payload);
  Status take_linked(PeerProcess& peer);
  Status take_leave(const PeerProcess& peer, MessageType type, ByteView payload);
  Status take_cause(const PeerProcess& peer, ByteView payload);
  void send_segments(PeerProcess& peer);
  void send_state(PeerProcess& peer);
  void send_cause(Connection& connection) const;
  void check_linked();
  void finish_linking(const Status& why);
  void send_to_peers(MessageType type, ByteView payload);
  void list_senders();
  void close();

  Hub& hub_;
  const KeyId id_;
  const Key secret_;
  const std::shared_ptr<StreamDesk> desk_;
  double reconnect_seconds_ = 0;
  bool tls_ = false;
  std::vector<Rank> here_;  // the ranks of this process, those that left included; as the roster
  std::map<Rank, Local> locals_;
  bool finished_ = false;                                         // linked, or failed to
  std::map<Connection*, std::shared_ptr<Connection>> strangers_;  // accepted, not introduced yet
  std::map<ProcessId, std::shared_ptr<Connection>> early_;        // introduced before the table came
  std::map<ProcessId, std::shared_ptr<PeerProcess>> peers_;
  std::size_t unlinked_ = 0;                           // of them
  std::vector<std::shared_ptr<PeerProcess>> to_dial_;  // of them
  std::vector<std::shared_ptr<Segment>> segments_;
  std::unique_ptr<BoardExchange> boards_;  // as the roster
  std::shared_ptr<Roster> roster_;         // set before any other thread can see the group as linked

  std::mutex send_mutex_;  // guards the connections below, to which any thread sends
  std::vector<std::shared_ptr<Connection>> senders_;
};

}  // namespace tutti

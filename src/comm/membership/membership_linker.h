// The membership linker: a process's part in the join of its ranks, from the root's word to all that a communicator
// needs.
//
// The table and the memory of the host come from another process, or are made here, and are passed on; the neighbours
// are dialled, or dial. When all of them are connected and the memory is known, the local ranks are told.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/membership/control_connections.h"
#include "comm/membership/host_memory.h"
#include "comm/membership/messages.h"
#include "net/connection.h"
#include "transport/shm/segment.h"

namespace tutti {

class ProcessMembership;

/// Loop thread only. Gone after the join: its membership lets go of it when all are linked, a join when it ends. One
/// that has failed stays with the membership, whose ranks then leave.
class MembershipLinker : public std::enable_shared_from_this<MembershipLinker> {
 public:
  /// What a local join wants to know. Called once; `why` ok: connected, and the memory of the host is mapped if it can
  /// be.
  using Linked = std::function<void(const Status& why)>;

  explicit MembershipLinker(ProcessMembership& membership) : membership_(membership) {}

  void add_local(Rank rank, Linked linked) { callbacks_[rank] = std::move(linked); }
  void remove_local(Rank rank) { callbacks_.erase(rank); }

  /// The root says where the table comes from.
  Status follow(const TableSourceMessage& message);
  /// The table has come, from the root or the process that has it first.
  Status begin(ByteView table);
  /// An accepted connection to a process, while there is no table to tell whether it belongs here.
  void park(const ProcessId& process, const std::shared_ptr<Connection>& connection);
  /// The process that the table comes from is connected: it speaks first.
  void expect_table(const PeerProcess& peer) const;
  /// First words to a process that has dialled this one.
  void greet(PeerProcess& peer);
  /// kTable, kSegment and kLinked.
  Status on_message(PeerProcess& peer, MessageType type, ByteView payload);
  /// Names the processes that the join still waits for here: "rank 3 (process 12 on host b) cannot be reached:
  /// 10.0.0.2:4000: no answer yet". Empty if there are none.
  std::string unreached() const;

  /// All are linked, or cannot be: tells the local ranks. Later calls do nothing.
  void finish(const Status& why);
  bool is_finished() const { return finished_; }
  /// This process is to blame for what ends the join of its ranks.
  void fail_local(const Status& why);
  /// The membership closes.
  void close();

 private:
  enum class Memory : std::uint8_t { kAwaited, kMapped, kApart };

  void connect_to_neighbours();
  void dial_next();
  Status take_table(PeerProcess& peer, ByteView payload);
  Status take_linked(PeerProcess& peer);
  HostMemory host_layout() const;
  void find_memory();
  Status take_memory(const PeerProcess& peer, ByteView payload);
  void have_memory(Memory outcome, std::shared_ptr<Segment> whole);
  void send_memory(PeerProcess& peer) const;
  void check_linked();

  ProcessMembership& membership_;
  std::map<Rank, Linked> callbacks_;  // called, and empty, once finished
  bool finished_ = false;
  std::map<ProcessId, std::shared_ptr<Connection>> early_;  // introduced before the table came
  std::size_t unlinked_ = 0;                                // neighbours
  std::vector<std::shared_ptr<PeerProcess>> to_dial_;       // of them
  std::vector<std::byte> table_;                            // as it travels
  Memory memory_ = Memory::kAwaited;
  std::shared_ptr<Segment> whole_;  // the host's
  std::vector<std::shared_ptr<Segment>> segments_;
};

}  // namespace tutti

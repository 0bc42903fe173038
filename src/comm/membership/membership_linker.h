// The membership linker does a process's part in the join of its ranks. It connects the process to its neighbours, and
// finds the memory of its host.
//
// The table comes from the root or from another process, and is passed on; so is the memory of the host, which its
// first process makes. One of each two neighbours dials the other. When all of them are connected and the memory is
// known, the linker calls the local joins.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/membership/control_connections.h"
#include "comm/membership/host_memory.h"
#include "comm/messages/messages.h"
#include "net/connection.h"
#include "transport/shm/segment.h"

namespace tutti {

class ProcessMembership;

/// Loop thread only. It does not outlive the join: its membership lets go of it when all are linked, and each join does
/// when it ends. If it has failed, it stays with the membership, whose ranks then leave.
class MembershipLinker : public std::enable_shared_from_this<MembershipLinker> {
 public:
  /// Called once for each local join. If `why` is ok, the process is connected to its neighbours, and the memory of the
  /// host is mapped if it can be.
  using Linked = std::function<void(const Status& why)>;

  explicit MembershipLinker(ProcessMembership& membership) : membership_(membership) {}

  void add_local(Rank rank, Linked linked) { callbacks_[rank] = std::move(linked); }
  void remove_local(Rank rank) { callbacks_.erase(rank); }

  /// Takes the root's message that says where the table comes from.
  Status follow(const TableSourceMessage& message);
  /// Takes the table, which comes from the root or from another process.
  Status begin(ByteView table);
  /// Keeps an accepted connection while there is no table that says whether its process belongs here.
  void park(const ProcessId& process, const std::shared_ptr<Connection>& connection);
  /// The process that the table comes from is connected. It sends first.
  void expect_table(const PeerProcess& peer) const;
  /// Sends the first messages to a process that has dialled this one.
  void greet(PeerProcess& peer);
  /// Takes kTable, kSegment and kLinked.
  Status on_message(PeerProcess& peer, MessageType type, ByteView payload);
  /// Names the processes that the join still waits for here: "rank 3 (process 12 on host b) cannot be reached:
  /// 10.0.0.2:4000: no answer yet". Empty if there are none.
  std::string unreached() const;

  /// Calls the local joins, because all are linked or cannot be. Later calls do nothing.
  void finish(const Status& why);
  bool is_finished() const { return finished_; }
  /// Ends the join of this process's ranks, for which this process is to blame.
  void fail_local(const Status& why);
  /// The membership closes.
  void close();
  /// The service thread ends, and local joins are left that could not end without memory: they hold this linker, which
  /// holds them.
  void drop_locals() { std::exchange(callbacks_, {}); }

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
  std::map<Rank, Linked> callbacks_;  // once finished they have been called, and are empty
  bool finished_ = false;
  std::map<ProcessId, std::shared_ptr<Connection>> early_;  // they introduced themselves before the table came
  std::size_t unlinked_ = 0;                                // how many neighbours are not linked yet
  std::vector<std::shared_ptr<PeerProcess>> to_dial_;       // neighbours that are still to be dialled
  std::vector<std::byte> table_;                            // as it travels
  Memory memory_ = Memory::kAwaited;
  Bytes host_bytes_{0};             // the size of the host's memory, known once there is a table
  std::shared_ptr<Segment> whole_;  // the memory of the host
  RankSegments segments_;
};

}  // namespace tutti

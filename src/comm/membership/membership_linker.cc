#include "comm/membership/membership_linker.h"

#include <unistd.h>

#include <utility>

#include "comm/membership/process_membership.h"
#include "net/host_identity.h"

namespace tutti {
namespace {

/// A process dials so many others at a time in a join, so that handshakes end within their time even if hundreds of
/// processes begin at once.
constexpr std::size_t kDialsAtOnce = 8;
constexpr std::size_t kTableLimit = 64 * 1024 * 1024;

}  // namespace

Status MembershipLinker::follow(const TableSourceMessage& message) {
  const auto kept_membership = membership_.shared_from_this();  // a failure may end the join of the last rank here
  ControlConnections& connections = membership_.connections();
  if (membership_.member_table() || !connections.peers().empty())
    return fail(Code::kRemoteError, "the root says twice where the table comes from");
  const Member& parent = message.parent;
  if (parent.process == connections.own()) return fail(Code::kRemoteError, "a process is to wait for itself");
  connections.add(parent, {parent.rank}, true)->connect();
  return {};
}

Status MembershipLinker::begin(ByteView data) {
  TableMessage table;
  TUTTI_TRY(decode(data, &table));
  if (membership_.member_table()) return fail(Code::kRemoteError, "a second table");
  std::uint64_t comm_id = 0;
  TUTTI_TRY(membership_.comm_id(&comm_id));
  if (table.comm_id != comm_id) return fail(Code::kRemoteError, "the table of another communicator");
  const ControlConnections& connections = membership_.connections();
  const auto member_table = std::make_shared<MemberTable>(table);
  const MemberList& members = member_table->members();
  auto order = std::make_unique<ProcessOrder>(members, connections.terms().mesh);
  const auto self = order->find(connections.own());
  for (const auto& [rank, linked] : callbacks_)
    if (!self || static_cast<std::size_t>(rank.value) >= members.size() || members.process(rank) != connections.own())
      return fail(Code::kInternalError, "rank {} is not where the root says it is", rank.value);
  for (const auto& [process, peer] : connections.peers())  // there is one, which must be the parent in the order
    if (order->find(process) != order->parent(*self)) return fail(Code::kRemoteError, "a table from somebody else");
  const auto kept_membership = membership_.shared_from_this();  // each step may end the join of the last rank here
  const auto kept = shared_from_this();                         // and the linker with it
  table_.assign(data.begin(), data.end());
  membership_.open(member_table, std::move(order), *self);
  host_bytes_ = host_layout().size();
  connect_to_neighbours();
  if (!finished_) find_memory();
  if (!finished_) check_linked();
  return {};
}

void MembershipLinker::connect_to_neighbours() {
  ControlConnections& connections = membership_.connections();
  connections.add_neighbours();
  unlinked_ = connections.peers().size();
  // The order is that of random numbers (ProcessId), so that not all processes begin with the same one.
  for (const auto& [process, peer] : connections.peers())
    if (peer->dials() && !peer->connection()) to_dial_.push_back(peer);
  for (std::size_t i = 0; i < kDialsAtOnce; ++i) dial_next();
  const auto early = std::move(early_);
  for (const auto& [process, connection] : early) membership_.attach(process, connection);
}

void MembershipLinker::dial_next() {
  if (to_dial_.empty()) return;
  const std::shared_ptr<PeerProcess> peer = to_dial_.back();
  to_dial_.pop_back();
  peer->connect();
}

/// A process makes another connection only when its last one has ended, so the newest counts.
void MembershipLinker::park(const ProcessId& process, const std::shared_ptr<Connection>& connection) {
  const auto there = early_.find(process);
  if (there != early_.end() && there->second->is_unix() && !connection->is_unix()) return connection->close();
  ConnectionEvents events;
  events.on_close = [weak = weak_from_this(), process, raw = connection.get()](const Status&) {
    const auto self = weak.lock();
    if (!self) return;
    const auto parked = self->early_.find(process);
    if (parked != self->early_.end() && parked->second.get() == raw) self->early_.erase(parked);
  };
  connection->set_events(std::move(events));
  const std::shared_ptr<Connection> older = std::exchange(early_[process], connection);
  if (older) older->close();
}

void MembershipLinker::expect_table(const PeerProcess& peer) const { peer.connection()->set_limit(kTableLimit); }

/// The dialled process sends first, when it has the table, because before that it could not understand anything.
void MembershipLinker::greet(PeerProcess& peer) {
  const ProcessOrder& order = membership_.connections().order();
  const std::size_t place = *order.find(peer.process());
  if (order.parent(place) == membership_.connections().self()) peer.send(MessageType::kTable, table_);
  if (memory_ != Memory::kAwaited) send_memory(peer);
  peer.send(MessageType::kLinked, {});
}

Status MembershipLinker::on_message(PeerProcess& peer, MessageType type, ByteView payload) {
  if (type == MessageType::kTable) return take_table(peer, payload);
  if (type == MessageType::kSegment) return take_memory(peer, payload);
  return take_linked(peer);
}

Status MembershipLinker::take_table(PeerProcess& peer, ByteView payload) {
  const auto kept = peer.shared_from_this();
  const Status status = begin(payload);
  if (!status.ok()) {
    finish(status);
    return status;
  }
  if (!kept->connection()) return {};  // the join has ended, and the membership with it
  kept->connection()->set_limit(Connection::kDefaultLimit);
  membership_.on_connected(*kept, false);
  return {};
}

Status MembershipLinker::take_linked(PeerProcess& peer) {
  if (std::exchange(peer.linked, true) || finished_) return {};  // it is back after a loss, or comes after the join
  --unlinked_;
  if (peer.dials()) {
    peer.send(MessageType::kLinked, {});
    dial_next();
  }
  check_linked();
  return {};
}

HostMemory MembershipLinker::host_layout() const {
  const ControlConnections& connections = membership_.connections();
  return HostMemory::of_host(membership_.member_table()->members(), connections.order(), connections.self());
}

/// The first process of a host makes the host's memory, and the others wait for it.
void MembershipLinker::find_memory() {
  if (host_bytes_.value == 0) return have_memory(Memory::kMapped, nullptr);
  if (membership_.connections().order().host_parent(membership_.connections().self())) return;
  std::shared_ptr<Segment> whole;
  const Status status = Segment::create(host_bytes_, &whole);
  if (!status.ok()) return finish(status);
  have_memory(Memory::kMapped, std::move(whole));
}

Status MembershipLinker::take_memory(const PeerProcess& peer, ByteView payload) {
  SegmentMessage message;
  TUTTI_TRY(decode(payload, &message));
  Descriptor descriptor = peer.connection()->take_descriptor();
  const ProcessOrder& order = membership_.connections().order();
  const bool expected =
      memory_ == Memory::kAwaited && order.find(peer.process()) == order.host_parent(membership_.connections().self());
  if (!expected || descriptor.valid() != (message.bytes != 0))
    return fail(Code::kRemoteError, "memory that was not announced");
  if (message.bytes == 0) {
    have_memory(Memory::kApart, nullptr);
    return {};
  }
  if (message.bytes != host_bytes_.value) return fail(Code::kRemoteError, "the memory of other ranks");
  std::shared_ptr<Segment> whole;
  const Status status = Segment::adopt(descriptor.release(), host_bytes_, &whole);
  if (!status.ok()) {
    finish(fail(status.code(), "the memory of this host, from {}: {}", peer.name(), status.text()));
    return {};
  }
  have_memory(Memory::kMapped, std::move(whole));
  return {};
}

/// If the host's memory cannot be mapped, the ranks of this process still share some.
void MembershipLinker::have_memory(Memory outcome, std::shared_ptr<Segment> whole) {
  const bool apart = outcome == Memory::kApart;
  const HostMemory layout =
      apart ? HostMemory(membership_.member_table()->members(), membership_.local_ranks()) : host_layout();
  if (apart) {
    const Status status = Segment::create(layout.size(), &whole);
    if (!status.ok()) return finish(status);
  }
  if (whole) segments_ = layout.parts_of(whole);
  memory_ = outcome;
  if (!apart) whole_ = std::move(whole);
  for (const auto& [process, peer] : membership_.connections().peers())
    if (peer->connection() && !peer->dials()) send_memory(*peer);
  check_linked();
}

/// Sends the host's memory to those who have it from here. A descriptor does not travel over TCP.
void MembershipLinker::send_memory(PeerProcess& peer) const {
  const ControlConnections& connections = membership_.connections();
  const auto parent = connections.order().host_parent(*connections.order().find(peer.process()));
  if (parent != connections.self() || host_bytes_.value == 0) return;
  const std::shared_ptr<Connection>& connection = peer.connection();
  if (whole_ && connection->is_unix()) {
    connection->send(MessageType::kSegment, encode(SegmentMessage{whole_->size().value}), whole_->descriptor(), whole_);
  } else {
    connection->send(MessageType::kSegment, encode(SegmentMessage{}));
  }
}

void MembershipLinker::check_linked() {
  if (unlinked_ == 0 && memory_ != Memory::kAwaited) finish(Status());
}

void MembershipLinker::finish(const Status& why) {
  if (finished_) return;
  std::vector<Linked> waiting;
  waiting.reserve(callbacks_.size());  // what can throw comes before anything is changed
  finished_ = true;
  table_ = {};
  whole_.reset();
  for (auto& [rank, linked] : callbacks_)
    if (linked) waiting.push_back(std::exchange(linked, nullptr));
  const auto kept = shared_from_this();  // the membership lets go of this linker
  membership_.connections().end_join();
  if (why.ok()) membership_.set_linked(std::move(segments_), memory_ == Memory::kMapped);
  for (const Linked& linked : waiting) linked(why);
}

void MembershipLinker::fail_local(const Status& why) {
  if (finished_ || callbacks_.empty()) return;
  finish(fail(why.code(), "rank {} (process {} on host {}): {}", callbacks_.begin()->first.value, ::getpid(),
              host_name(), why.text()));
}

std::string MembershipLinker::unreached() const {
  if (finished_) return {};
  std::string text;
  for (const auto& [process, peer] : membership_.connections().peers()) {
    if (peer->linked) continue;
    const std::string tried = peer->progress();
    const std::string how = !tried.empty()       ? "cannot be reached: " + tried
                            : peer->connection() ? "is connected, but silent"
                                                 : "has not connected";
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ", peer->name(), how);
  }
  return text;
}

void MembershipLinker::close() {
  for (const auto& [process, connection] : early_) connection->close();
  early_.clear();
  to_dial_.clear();
}

}  // namespace tutti

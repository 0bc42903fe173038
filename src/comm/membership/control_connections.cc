#include "comm/membership/control_connections.h"

#include <algorithm>
#include <utility>

namespace tutti {
namespace {

std::string process_name(const std::vector<Rank>& ranks, const Member& first) {
  return fmt::format("{} ({})", text_of(ranks), describe(first));
}

}  // namespace

Status ControlConnections::key_for(const ProcessId& process, Key* key) const {
  return hmac_sha256(secret_, {bytes_of("tutti member"), process}, key);
}

void ControlConnections::open(std::shared_ptr<MemberTable> member_table, std::unique_ptr<ProcessOrder> order,
                              std::size_t self) {
  member_table_ = std::move(member_table);
  order_ = std::move(order);
  self_ = self;
}

void ControlConnections::close() {
  closed_ = true;
  for (auto& [process, peer] : peers_) peer->close();
  peers_.clear();
  const MutexLock lock(send_mutex_);
  senders_.clear();
}

std::shared_ptr<PeerProcess> ControlConnections::find(const ProcessId& process) const {
  const auto found = peers_.find(process);
  return found == peers_.end() ? nullptr : found->second;
}

std::shared_ptr<PeerProcess> ControlConnections::add(const Member& first, const std::vector<Rank>& ranks, bool dials) {
  Key key{};
  const Status keyed = key_for(first.process, &key);
  std::vector<DialTarget> targets = tcp_targets(first.host->addresses, first.port, terms_.tls);
  if (first.host->id == terms_.host_id) {
    targets.emplace(targets.begin());
    targets.front().socket_name = socket_name(first.process);
  }
  auto peer = std::make_shared<PeerProcess>(
      owner_, PeerProcess::Place{.loop = loop_,
                                 .id = id_,
                                 .key = key,
                                 .self = own_,
                                 .process = first.process,
                                 .ranks = ranks,
                                 .name = process_name(ranks, first),
                                 .targets = std::move(targets),
                                 .dials = dials,
                                 .senior = order_ && self_ > order_->find(first.process).value_or(0),
                                 .late = late_,
                                 .timeout = terms_.reconnect_seconds});
  peers_[first.process] = peer;
  if (!keyed.ok()) owner_.on_unreachable(*peer, keyed);
  return peer;
}

std::vector<Rank> ControlConnections::ranks_at(std::size_t place) const {
  const std::span<const Rank> ranks = (*order_)[place].ranks;
  return {ranks.begin(), ranks.end()};
}

std::shared_ptr<PeerProcess> ControlConnections::add_at(std::size_t place, bool dials) {
  const std::vector<Rank> ranks = ranks_at(place);
  return add(member_table_->members()[ranks.front()], ranks, dials);
}

void ControlConnections::add_neighbours() {
  for (const std::size_t place : order_->neighbours(self_)) {
    const std::vector<Rank> ranks = ranks_at(place);
    if (const auto parent = find((*order_)[place].process))
      parent->set_ranks(ranks, process_name(ranks, member_table_->members()[ranks.front()]));
    else
      add_at(place, place < self_);
  }
}

std::shared_ptr<PeerProcess> ControlConnections::reach(std::size_t place, int* allowance) {
  if (place == self_ || closed_) return nullptr;
  if (auto known = find((*order_)[place].process)) return known;
  if (allowance != nullptr && --*allowance < 0) return nullptr;
  auto made = add_at(place, true);
  made->connect();
  return made;
}

/// A process that does not answer may have left, and so may those that knew it. The next one in the order then reports
/// it.
void ControlConnections::mend() {
  std::vector<bool> those(order_->size());
  for (std::size_t place = 0; place < those.size(); ++place) those[place] = is_present(place);
  for (const auto& [process, peer] : peers_)
    if (const auto place = order_->find(process); place && peer->unanswered()) those[*place] = false;
  if (!those[self_]) return;
  for (const std::size_t place : order_->fingers(self_, those)) reach(place, nullptr);
}

bool ControlConnections::is_present(std::size_t place) const {
  const std::span<const Rank> ranks = (*order_)[place].ranks;
  return std::any_of(ranks.begin(), ranks.end(),
                     [this](Rank rank) { return member_table_->liveness(rank) == Liveness::kAlive; });
}

const Connection* ControlConnections::connection_to(const ProcessId& process) const {
  const auto found = peers_.find(process);
  return found == peers_.end() ? nullptr : found->second->connection().get();
}

/// Within a host there is no network link that could die.
bool ControlConnections::watches(const ProcessId& process, const Connection& data) const {
  const Connection* const control = connection_to(process);
  if (process == own_ || (control != nullptr && control->is_unix())) return true;
  IpAddress ends[2];
  std::uint32_t scopes[2];
  return control != nullptr && control->peer(&ends[0], &scopes[0]) && data.peer(&ends[1], &scopes[1]) &&
         ends[0] == ends[1] && scopes[0] == scopes[1];
}

void ControlConnections::add_sender(const std::shared_ptr<Connection>& connection) {
  const MutexLock lock(send_mutex_);
  senders_.push_back(connection);
}

void ControlConnections::list_senders() {
  std::vector<std::shared_ptr<Connection>> open;
  for (const auto& [process, peer] : peers_)
    if (peer->connection()) open.push_back(peer->connection());
  const MutexLock lock(send_mutex_);
  senders_ = std::move(open);
}

void ControlConnections::send(MessageType type, ByteView payload) {
  const MutexLock lock(send_mutex_);
  for (const auto& connection : senders_) connection->send(type, payload);
}

bool ControlConnections::delivered() {
  const MutexLock lock(send_mutex_);
  return std::all_of(senders_.begin(), senders_.end(),
                     [](const std::shared_ptr<Connection>& connection) { return connection->delivered(); });
}

}  // namespace tutti

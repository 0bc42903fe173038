#include "executor/point_to_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/kernels.h"
#include "transport/inproc.h"
#include "transport/mixed/mixed.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"

namespace tutti {

template <Endpoint E>
PointToPoint<E>::PointToPoint(E& endpoint, const PointToPointPolicy& policy)
    : endpoint_(endpoint), policy_(policy), self_(endpoint.rank()), piece_(endpoint.capabilities().piece) {}

template <Endpoint E>
Fingerprint PointToPoint<E>::fingerprint(std::uint64_t sequence, bool envelope) {
  return mix64(sequence * 2 + (envelope ? 1 : 0) + 0x70656572ull);
}

template <Endpoint E>
void PointToPoint<E>::start(std::span<Transfer> transfers) {
  outbound_.resize(static_cast<std::size_t>(endpoint_.ranks()));
  inbound_.resize(static_cast<std::size_t>(endpoint_.ranks()));
  transfers_ = transfers;
  courses_.assign(transfers.size(), Course{});
  for (const Rank peer : targets_) outbound_[index(peer)].sends.clear();
  targets_.clear();
  sources_.clear();
  deliveries_.clear();
  staged_to_self_ = 0;
  open_ = transfers.size();
  awaited_ = kNoRank;
  const auto add = [](std::vector<Rank>* peers, Rank peer) {
    if (std::find(peers->begin(), peers->end(), peer) == peers->end()) peers->push_back(peer);
  };
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    const Transfer& transfer = transfers[i];
    if (transfer.kind == Transfer::Kind::kReceive) {
      for (Rank peer{0}; peer.value < endpoint_.ranks(); ++peer)
        if (peer != self_ && (transfer.peer == peer || transfer.peer == kNoRank)) add(&sources_, peer);
    } else if (transfer.peer == self_) {
      send_to_self(i);
    } else {
      add(&targets_, transfer.peer);
      Outbound& link = outbound_[index(transfer.peer)];
      link.next = 0;
      link.sends.push_back(i);
    }
  }
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    if (transfers[i].kind != Transfer::Kind::kReceive) continue;
    bool taken = transfers[i].peer != kNoRank && take_unexpected(i, transfers[i].peer);
    for (Rank peer{0}; transfers[i].peer == kNoRank && peer.value < endpoint_.ranks() && !taken; ++peer)
      taken = take_unexpected(i, peer);
  }
}

/// A send to this rank itself is kept until its receive comes. So it waits for nobody.
template <Endpoint E>
void PointToPoint<E>::send_to_self(std::size_t transfer) {
  const Transfer& send = transfers_[transfer];
  auto message = std::make_unique<Unexpected>();
  message->tag = send.tag;
  message->type = send.type;
  message->bytes = send.bytes();
  kept_bytes_ += message->bytes.value + kKeptOverhead;
  if (send.staging != nullptr) {
    message->send = transfer;
    ++staged_to_self_;
  } else {
    message->data.assign(send.data, send.data + send.bytes().value);
    end(transfer, self_);
  }
  inbound_[index(self_)].unexpected.push_back(std::move(message));
}

/// Gives a receive the oldest message of `peer` with its tag that was kept, if there is one.
template <Endpoint E>
bool PointToPoint<E>::take_unexpected(std::size_t receive, Rank peer) {
  auto& kept = inbound_[index(peer)].unexpected;
  const int tag = transfers_[receive].tag;
  const auto found =
      std::find_if(kept.begin(), kept.end(), [tag](const auto& m) { return m->tag == tag && m->receive == kNobody; });
  if (found == kept.end()) return false;
  Unexpected* const message = found->get();
  courses_[receive].state = State::kMatched;
  message->receive = receive;
  const bool both_staged = message->send != kNobody && transfers_[receive].staging != nullptr;
  if (both_staged && fits(receive, peer, message->type, message->bytes)) {
    transfers_[receive].staging->move(message->send, receive);
    --staged_to_self_;
    end(message->send, peer);
    drop(peer, message);
    end(receive, peer);
  } else if (message->bytes.value == message->data.size()) {
    finish_from(peer, message, receive);
  }
  return true;
}

/// Ends a receive whose kept message is whole.
template <Endpoint E>
void PointToPoint<E>::finish_from(Rank peer, Unexpected* message, std::size_t receive) {
  if (!fits(receive, peer, message->type, Bytes{message->data.size()})) return;
  if (transfers_[receive].staging != nullptr) return deliveries_.push_back(Delivery{peer, message});
  if (!message->data.empty()) std::memcpy(transfers_[receive].data, message->data.data(), message->data.size());
  drop(peer, message);
  end(receive, peer);
}

template <Endpoint E>
void PointToPoint<E>::drop(Rank peer, Unexpected* message) {
  kept_bytes_ -= message->bytes.value + kKeptOverhead;
  std::erase_if(inbound_[index(peer)].unexpected, [message](const auto& m) { return m.get() == message; });
}

/// Keeps more of a staged send to this rank itself. Returns false if the next piece is not there yet.
template <Endpoint E>
bool PointToPoint<E>::keep_more(Unexpected* message) {
  std::vector<std::byte>& data = message->data;
  data.reserve(message->bytes.value);
  while (data.size() < message->bytes.value) {
    const Bytes size = std::min(piece_, message->bytes - Bytes{data.size()});
    const std::byte* const piece = data_of(message->send, Bytes{data.size()}, size);
    if (piece == nullptr) return false;
    data.insert(data.end(), piece, piece + size.value);
    ++progress_;
  }
  return true;
}

/// They are read one after another, as staging has it.
template <Endpoint E>
void PointToPoint<E>::keep_staged_sends() {
  auto& kept = inbound_[index(self_)].unexpected;
  for (auto next = kept.begin(); staged_to_self_ != 0 && next != kept.end();) {
    Unexpected* const message = (next++)->get();
    if (message->send == kNobody) continue;
    if (!keep_more(message)) return;
    --staged_to_self_;
    end(std::exchange(message->send, kNobody), self_);
    if (message->receive != kNobody) finish_from(self_, message, message->receive);
  }
}

/// Returns false if there is no room for the next piece yet.
template <Endpoint E>
bool PointToPoint<E>::deliver(Delivery* delivery) {
  const std::vector<std::byte>& data = delivery->message->data;
  while (delivery->moved.value < data.size()) {
    const Bytes size = std::min(piece_, Bytes{data.size()} - delivery->moved);
    std::byte* const room = room_of(delivery->message->receive, delivery->moved, size);
    if (room == nullptr) return false;
    std::memcpy(room, data.data() + delivery->moved.value, size.value);
    delivery->moved += size;
    ++progress_;
  }
  return true;
}

template <Endpoint E>
void PointToPoint<E>::deliver_kept() {
  while (!deliveries_.empty() && deliver(&deliveries_.front())) {
    const Delivery done = deliveries_.front();
    deliveries_.erase(deliveries_.begin());
    const std::size_t receive = done.message->receive;
    drop(done.peer, done.message);
    end(receive, done.peer);
  }
}

/// Returns memory for the next message to a peer; nullptr if it has to wait for a credit.
template <Endpoint E>
std::byte* PointToPoint<E>::claim(Rank peer, Bytes size) {
  std::byte* const slot = endpoint_.send_claim(route(peer), size);
  if (slot == nullptr) note_awaited(peer);
  return slot;
}

/// Returns a piece of a send's data; nullptr if it is not there yet.
template <Endpoint E>
const std::byte* PointToPoint<E>::data_of(std::size_t send, Bytes at, Bytes size) {
  const Transfer& transfer = transfers_[send];
  if (transfer.staging == nullptr) return transfer.data + at.value;
  const std::byte* const data = transfer.staging->read(send, size);
  if (data == nullptr) ++staging_waits_;
  return data;
}

/// Returns where a piece of a receive's data goes; nullptr if there is no room for it yet.
template <Endpoint E>
std::byte* PointToPoint<E>::room_of(std::size_t receive, Bytes at, Bytes size) {
  const Transfer& transfer = transfers_[receive];
  if (transfer.staging == nullptr) return transfer.data + at.value;
  std::byte* const room = transfer.staging->write(receive, at, size);
  if (room == nullptr) ++staging_waits_;
  return room;
}

template <Endpoint E>
bool PointToPoint<E>::fits(std::size_t receive, Rank peer, DataType type, Bytes bytes) {
  const Transfer& asked = transfers_[receive];
  if (asked.type == type && asked.bytes() == bytes) return true;
  fault_ = fmt::format("rank {} sent {} {} (tag {}) where rank {} receives {} {}", peer.value,
                       bytes.value / size_of(type).value, name_of(type), asked.tag, self_.value, asked.count.value,
                       name_of(asked.type));
  return false;
}

template <Endpoint E>
void PointToPoint<E>::end(std::size_t transfer, Rank peer) {
  courses_[transfer].state = State::kEnded;
  --open_;
  ++progress_;
  Transfer& ended = transfers_[transfer];
  if (ended.kind == Transfer::Kind::kReceive && ended.source != nullptr) *ended.source = peer.value;
}

template <Endpoint E>
void PointToPoint<E>::note_awaited(Rank peer) {
  if (awaited_ == kNoRank || peer < awaited_) awaited_ = peer;
}

template <Endpoint E>
Progress PointToPoint<E>::advance() {
  awaited_ = kNoRank;
  staging_waits_ = 0;
  if (!fault_.empty()) return Progress::kFailed;
  for (const Rank peer : targets_) advance_sends(peer);
  for (const Rank peer : sources_)
    if (!advance_receives(peer)) return Progress::kFailed;
  keep_staged_sends();
  deliver_kept();
  if (!fault_.empty()) return Progress::kFailed;
  if (open_ == 0) return Progress::kDone;
  // A receive from this rank itself waits for this rank if no send of an earlier call or of this batch matches it.
  if (awaited_ == kNoRank && staging_waits_ == 0) note_awaited(self_);
  return Progress::kAgain;
}

template <Endpoint E>
const Transfer* PointToPoint<E>::open_transfer() const {
  for (std::size_t i = 0; i < courses_.size(); ++i)
    if (courses_[i].state != State::kEnded) return &transfers_[i];
  return nullptr;
}

template <Endpoint E>
bool PointToPoint<E>::is_open_with(Rank peer) const {
  for (std::size_t i = 0; i < courses_.size(); ++i) {
    const bool open = courses_[i].state != State::kEnded;
    if (open && (transfers_[i].peer == peer || transfers_[i].peer == kNoRank)) return true;
  }
  return false;
}

template <Endpoint E>
void PointToPoint<E>::advance_sends(Rank peer) {
  Outbound& link = outbound_[index(peer)];
  for (; link.next < link.sends.size(); ++link.next) {
    const std::size_t transfer = link.sends[link.next];
    if (courses_[transfer].state == State::kWaiting && !send_envelope(&link, transfer)) return;
    if (!send_pieces(link, transfer)) return;
    end(transfer, peer);
  }
}

/// Returns false if the send has to wait, for a credit or for its data.
template <Endpoint E>
bool PointToPoint<E>::send_envelope(Outbound* link, std::size_t transfer) {
  const Transfer& send = transfers_[transfer];
  const Bytes size{sizeof(Envelope)};
  std::byte* const slot = claim(send.peer, size);
  if (slot == nullptr) return false;
  Envelope envelope{};
  envelope.bytes = send.bytes().value;
  envelope.tag = send.tag;
  envelope.type = static_cast<std::uint32_t>(send.type);
  envelope.sequence = link->sequence;
  if (envelope.bytes != 0 && envelope.bytes <= Envelope::kInline) {
    const std::byte* const data = data_of(transfer, Bytes{0}, send.bytes());
    if (data == nullptr) return false;
    std::memcpy(envelope.payload, data, envelope.bytes);
    courses_[transfer].moved = send.bytes();
  }
  std::memcpy(slot, &envelope, sizeof envelope);
  endpoint_.send_commit(route(send.peer), size, fingerprint(link->sequence, true));
  ++link->sequence;
  ++progress_;
  courses_[transfer].state = State::kMatched;
  return true;
}

/// Returns false if the send has to wait, for a credit or for its data.
template <Endpoint E>
bool PointToPoint<E>::send_pieces(Outbound& link, std::size_t transfer) {
  const Transfer& send = transfers_[transfer];
  Bytes& moved = courses_[transfer].moved;
  while (moved < send.bytes()) {
    const Bytes size = std::min(piece_, send.bytes() - moved);
    std::byte* const slot = claim(send.peer, size);
    const std::byte* const data = slot == nullptr ? nullptr : data_of(transfer, moved, size);
    if (data == nullptr) return false;
    copy_into_slot(slot, nullptr, data, size, false, link.stores);
    endpoint_.send_commit(route(send.peer), size, fingerprint(link.sequence - 1, false));
    moved += size;
    ++progress_;
  }
  return true;
}

/// Whether a receive waits for a message of this peer, or for the rest of one.
template <Endpoint E>
bool PointToPoint<E>::wants(Rank peer) const {
  for (std::size_t i = 0; i < transfers_.size(); ++i) {
    const Transfer& t = transfers_[i];
    if (t.kind == Transfer::Kind::kReceive && courses_[i].state == State::kWaiting &&
        (t.peer == peer || t.peer == kNoRank))
      return true;
  }
  const Inbound& link = inbound_[index(peer)];
  return link.receive != kNobody || (link.kept != nullptr && link.kept->receive != kNobody);
}

/// Returns false if a message does not fit its receive.
template <Endpoint E>
bool PointToPoint<E>::advance_receives(Rank peer) {
  const Inbound& link = inbound_[index(peer)];
  while (wants(peer)) {
    const std::uint64_t before = progress_;
    const std::size_t waits = staging_waits_;
    const bool sound = link.left.value != 0 ? take_pieces(peer) : take_envelope(peer);
    if (!sound) return false;
    if (progress_ == before) {
      if (staging_waits_ == waits) note_awaited(peer);
      return true;
    }
  }
  return true;
}

template <Endpoint E>
std::size_t PointToPoint<E>::find_receive(Rank peer, int tag) const {
  for (std::size_t i = 0; i < transfers_.size(); ++i) {
    const Transfer& t = transfers_[i];
    if (t.kind == Transfer::Kind::kReceive && courses_[i].state == State::kWaiting && t.tag == tag &&
        (t.peer == peer || t.peer == kNoRank))
      return i;
  }
  return kNobody;
}

template <Endpoint E>
bool PointToPoint<E>::take_envelope(Rank peer) {
  Inbound& link = inbound_[index(peer)];
  const Bytes size{sizeof(Envelope)};
  const Peek peek = endpoint_.recv_peek(route(peer), size, fingerprint(link.sequence, true));
  if (peek.state == PeekState::kMismatch) {
    fault_ = fmt::format("rank {} sent something else than the start of a message", peer.value);
    return false;
  }
  if (peek.state == PeekState::kAgain) return true;
  Envelope envelope;
  std::memcpy(&envelope, peek.data, sizeof envelope);
  endpoint_.recv_release(route(peer), size);
  ++link.sequence;
  ++progress_;
  if (envelope.type >= kDataTypes || envelope.sequence + 1 != link.sequence) {
    fault_ = fmt::format("rank {} sent a message whose head makes no sense", peer.value);
    return false;
  }
  const auto type = static_cast<DataType>(envelope.type);
  link.receive = find_receive(peer, envelope.tag);
  if (link.receive != kNobody) {
    if (!fits(link.receive, peer, type, Bytes{envelope.bytes})) return false;
    courses_[link.receive].state = State::kMatched;
  } else if (!keep(peer, envelope)) {
    return false;
  }
  link.left = Bytes{envelope.bytes};
  link.is_inline = envelope.bytes <= Envelope::kInline;
  if (link.is_inline) std::memcpy(link.payload, envelope.payload, sizeof link.payload);
  return take_pieces(peer);
}

/// Returns false if, with this message, too much waits for receives.
template <Endpoint E>
bool PointToPoint<E>::keep(Rank peer, const Envelope& envelope) {
  const std::size_t room = policy_.most_kept.value - std::min(policy_.most_kept.value, kept_bytes_);
  if (room < kKeptOverhead || envelope.bytes > room - kKeptOverhead) {
    fault_ = fmt::format(
        "rank {} keeps {} bytes of messages until it receives them, and rank {} has sent {} more (tag {}): that "
        "exceeds TUTTI_UNEXPECTED_BYTES={}",
        self_.value, kept_bytes_, peer.value, envelope.bytes, envelope.tag, policy_.most_kept.value);
    return false;
  }
  auto message = std::make_unique<Unexpected>();
  message->tag = envelope.tag;
  message->type = static_cast<DataType>(envelope.type);
  message->bytes = Bytes{envelope.bytes};
  kept_bytes_ += envelope.bytes + kKeptOverhead;
  Inbound& link = inbound_[index(peer)];
  link.kept = message.get();
  link.unexpected.push_back(std::move(message));
  return true;
}

/// Returns false if there is no room for the piece yet.
template <Endpoint E>
bool PointToPoint<E>::take(Inbound* link, const std::byte* piece, Bytes size) {
  std::byte* target = nullptr;
  if (link->kept != nullptr) {
    std::vector<std::byte>& data = link->kept->data;
    const std::size_t whole = data.size() + size.value;
    if (whole > data.capacity())
      data.reserve(std::min(std::max(2 * data.capacity(), whole), std::max(whole, link->kept->bytes.value)));
    data.resize(whole);
    target = data.data() + data.size() - size.value;
  } else {
    target = room_of(link->receive, transfers_[link->receive].bytes() - link->left, size);
  }
  if (target != nullptr && target != piece) copy_bytes(target, piece, size, false);
  return target != nullptr;
}

/// Looks at the next piece, which may arrive in the buffer of its receive if that is no device's memory.
template <Endpoint E>
Peek PointToPoint<E>::peek_piece(const Inbound& link, Rank peer, Bytes size) {
  const Fingerprint expected = fingerprint(link.sequence - 1, false);
  if constexpr (NetworkEndpoint<E>) {
    std::byte* landing = nullptr;
    if (link.receive != kNobody && transfers_[link.receive].staging == nullptr)
      landing = room_of(link.receive, transfers_[link.receive].bytes() - link.left, size);
    return endpoint_.recv_peek(route(peer), size, expected, landing);
  } else {
    return endpoint_.recv_peek(route(peer), size, expected);
  }
}

/// Takes the pieces of the message under way, as far as they have come, and ends the message if it is whole.
template <Endpoint E>
bool PointToPoint<E>::take_pieces(Rank peer) {
  Inbound& link = inbound_[index(peer)];
  if (link.is_inline && link.left.value != 0) {
    if (!take(&link, link.payload, link.left)) return true;
    link.left = Bytes{0};
    ++progress_;
  }
  while (link.left.value != 0) {
    const Bytes size = std::min(piece_, link.left);
    const Peek peek = peek_piece(link, peer, size);
    if (peek.state == PeekState::kMismatch) {
      fault_ = fmt::format("rank {} sent something else than the rest of its message", peer.value);
      return false;
    }
    if (peek.state == PeekState::kAgain) return true;
    if (!take(&link, peek.data, size)) return true;
    endpoint_.recv_release(route(peer), size);
    link.left -= size;
    ++progress_;
  }
  const std::size_t receive = std::exchange(link.receive, kNobody);
  Unexpected* const kept = std::exchange(link.kept, nullptr);
  if (receive != kNobody) end(receive, peer);
  if (kept == nullptr) return true;
  if (kept->receive != kNobody) finish_from(peer, kept, kept->receive);
  return fault_.empty();
}

template class PointToPoint<ShmEndpoint>;
template class PointToPoint<InprocEndpoint>;
template class PointToPoint<TcpEndpoint>;
template class PointToPoint<MixedEndpoint>;

}  // namespace tutti

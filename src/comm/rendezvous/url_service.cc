#include "comm/rendezvous/url_service.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "comm/messages/messages.h"

namespace tutti {
namespace {

constexpr std::size_t kSecretInIdAt = 8;  // where the secret is in an id, see unique_id.h
constexpr std::chrono::seconds kQuestionTime{10};

}  // namespace

Status mask_id(const Key& connection_key, const KeyAgreement& own, const Key& others, IdBytes* id) {
  Key shared;
  TUTTI_TRY(own.agree(others, &shared));
  Key mask;
  TUTTI_TRY(hmac_sha256(connection_key, {bytes_of("tutti id mask"), shared}, &mask));
  for (std::size_t i = 0; i < mask.size(); ++i) (*id)[kSecretInIdAt + i] ^= mask[i];
  return {};
}

UrlService::~UrlService() {
  for (const auto& connection : connections_) connection->close();
}

Status UrlService::publish(const KeyId& key, const Key& secret, std::uint16_t port, std::uint64_t round,
                           const IdBytes& id) {
  Site& site = sites_[key];
  site.secret = secret;
  site.port = port;
  if (!site.acceptor && port != hub_.port()) {  // the hub listens at its own port already
    const Status status = Acceptor::listen_tcp(hub_.loop(), hub_.pending(), port, port, &site.acceptor);
    if (!status.ok()) {
      sites_.erase(key);
      return status;
    }
  }
  site.rounds[round] = id;
  return {};
}

void UrlService::withdraw(const KeyId& key, std::uint64_t round) {
  const auto found = sites_.find(key);
  if (found == sites_.end()) return;
  found->second.rounds.erase(round);
  if (found->second.rounds.empty()) sites_.erase(found);
}

Expected UrlService::expects(const Arrival& arrival) const {
  const auto at_its_port = [&](const auto& site) { return site.second.port == arrival.port; };
  const bool expected = arrival.known && std::any_of(sites_.begin(), sites_.end(), at_its_port);
  return expected ? Expected::kAnywhere : Expected::kNowhere;
}

bool UrlService::find_secret(const KeyId& key, Key* secret) const {
  const auto found = sites_.find(key);
  if (found == sites_.end()) return false;
  *secret = found->second.secret;
  return true;
}

void UrlService::serve(const std::shared_ptr<Connection>& connection) {
  Connection* const raw = connection.get();
  if (connections_.size() >= kMostConnections) {
    connections_.front()->close();
    connections_.pop_front();
  }
  connections_.push_back(connection);
  ConnectionEvents events;
  events.on_message = [this, raw](MessageType type, ByteView payload) {
    if (type != MessageType::kAskId) return fail(Code::kRemoteError, "a message that this port does not serve");
    return answer(*raw, payload);
  };
  events.on_close = [this, raw](const Status&) { forget(raw); };
  connection->set_events(std::move(events));
  hub_.loop().after(kQuestionTime, [this, weak = std::weak_ptr<Connection>(connection)] {
    const auto kept = weak.lock();
    if (!kept) return;
    kept->close();
    forget(kept.get());
  });
}

void UrlService::forget(const Connection* connection) {
  connections_.remove_if([connection](const auto& item) { return item.get() == connection; });
}

Status UrlService::answer(Connection& connection, ByteView payload) {
  AskIdMessage question;
  TUTTI_TRY(decode(payload, &question));
  const auto site = sites_.find(connection.handshake().key_id());
  GiveIdMessage reply;
  if (site != sites_.end() && !site->second.rounds.empty()) {
    reply.round = site->second.rounds.rbegin()->first;
    const auto found = site->second.rounds.find(question.round);
    if (found != site->second.rounds.end()) {
      reply.given = true;
      reply.id = found->second;
      KeyAgreement own;
      TUTTI_TRY(KeyAgreement::make(&own));
      reply.public_key = own.public_key();
      TUTTI_TRY(mask_id(connection.handshake().send_key(), own, question.public_key, &reply.id));
    }
  }
  connection.send(MessageType::kGiveId, encode(reply));
  return {};
}

}  // namespace tutti

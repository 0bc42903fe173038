// A rank joins two others by an id that a hostile process serves: it has the secret and says what it likes.
#include "comm/join/join.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <thread>

#include "comm/membership/hub.h"
#include "comm/messages/unique_id.h"
#include "core/log.h"
#include "messages.h"
#include "net/handshake.h"
#include "support/frames.h"

namespace {

using namespace tutti;

/// Listens where the id says.
Descriptor listen_for(UniqueId* id) {
  Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  fuzz::demand(::bind(listener.get(), reinterpret_cast<sockaddr*>(&at), size) == 0 &&
                   ::listen(listener.get(), 1) == 0 &&
                   ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &size) == 0,
               "a port for the id");
  id->port = ntohs(at.sin_port);
  id->addresses.resize(1);
  id->addresses[0].bytes = {std::byte{127}, std::byte{0}, std::byte{0}, std::byte{1}};
  return listener;
}

/// The other end of the connection between a rank that joins and who serves its id.
class FalseRoot {
 public:
  FalseRoot(const Descriptor& listener, const Key& secret) {
    pollfd wanted{listener.get(), POLLIN, 0};
    fuzz::demand(::poll(&wanted, 1, 60'000) == 1, "the rank comes");
    socket_.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    Handshake server = Handshake::server([&](Role, const KeyId&, Key* found) { return *found = secret, true; });
    while (server.wants() != 0) {
      std::vector<std::byte> answer;
      fuzz::demand(server.consume(receive(server.wants()), &answer).ok(), "the rank has the secret");
      send(answer);
    }
    key_ = server.send_key();
  }
  JoinMessage hear_join() const {
    JoinMessage join;
    const std::vector<std::byte> header = receive(test::kFrameHeader);
    MessageReader in(header);
    std::vector<std::byte> rest = receive(in.u32() + test::kFrameCode);
    rest.resize(rest.size() - test::kFrameCode);
    fuzz::demand(decode(rest, &join).ok(), "the rank says who it is");
    return join;
  }
  void say(MessageType type, ByteView payload) {
    std::vector<std::byte> frame = test::frame_of(type, payload);
    fuzz::demand(test::sign(key_, said_++, &frame).ok(), "a code is made");
    send(frame);
  }

 private:
  void send(ByteView data) const { (void)::send(socket_.get(), data.data(), data.size(), MSG_NOSIGNAL); }
  std::vector<std::byte> receive(std::size_t size) const {
    std::vector<std::byte> data(size);
    const ssize_t got = ::recv(socket_.get(), data.data(), size, MSG_WAITALL);
    fuzz::demand(got == static_cast<ssize_t>(size), "the rank speaks");
    return data;
  }

  Descriptor socket_;
  Key key_{};
  std::uint64_t said_ = 0;
};

/// A table in which the rank finds itself, mostly.
std::vector<std::byte> table_for(const JoinMessage& join, const UniqueId& id, fuzz::Bytes& input) {
  TableMessage table = fuzz::table();
  fuzz::demand(id.comm_id(&table.comm_id).ok(), "a number");
  const unsigned how = input.u8();
  const auto another = std::make_shared<const MemberHost>(MemberHost{.id = "another"});
  for (Member& member : table.members) member.host = (how & 1) != 0 ? join.member.host : another;
  table.members[0] = join.member;
  if ((how & 2) != 0)
    for (Member& member : table.members) member.process = join.member.process;
  if ((how & 4) != 0) table.members[1].resources = MemberResources::unknown();
  if ((how & 8) != 0) table.members.resize(input.u8() % (fuzz::kRanks + 1));
  std::vector<std::byte> payload = encode(table);
  fuzz::change(&payload, how >> 6, input);
  return payload;
}

void serve(const Descriptor& listener, const UniqueId& id, fuzz::Bytes input) {
  FalseRoot root(listener, id.secret);
  const JoinMessage join = root.hear_join();
  while (!input.empty()) {
    const auto type = static_cast<MessageType>(input.u8() % fuzz::kTypes);
    root.say(type, type == MessageType::kTable ? table_for(join, id, input) : fuzz::payload_of(type, 1, input));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static std::shared_ptr<Hub> hub;
  static UniqueId id;
  if (!hub) {
    log_configure(LogLevel::kTrace, "/dev/null");
    fuzz::demand(Hub::acquire(Settings{}, &hub).ok(), "a hub");
    fuzz::demand(random_bytes(id.secret).ok() && random_bytes(id.nonce).ok(), "an id");
  }
  static const Descriptor listener = listen_for(&id);
  JoinRequest request;
  request.id = id.encode();
  request.ranks = fuzz::kRanks;
  request.rank = Rank{0};
  request.segment_bytes = Bytes{fuzz::kSegment};
  request.deadline = Deadline::in(60);
  std::thread serving([&] { serve(listener, id, fuzz::Bytes(data, size)); });
  const auto began = Clock::now();
  JoinResult result;
  const Status joined = join(request, &result);
  fuzz::demand(!joined.ok() || result.membership != nullptr, "who has joined is a member");
  serving.join();
  fuzz::demand(Clock::now() - began < std::chrono::seconds(30), "a join ends with who serves its id");
  return 0;
}

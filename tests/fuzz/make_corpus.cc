// Writes the corpus: what real encoders and real handshakes make, one file an input, below the folder given.
#include <sys/socket.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/messages/board_message.h"
#include "comm/messages/data_connection_message.h"
#include "comm/messages/messages.h"
#include "comm/messages/unique_id.h"
#include "comm/rendezvous/file_rendezvous.h"
#include "net/handshake.h"
#include "net/tls_credentials.h"
#include "transport/tcp/tcp_frame.h"

namespace {

using namespace tutti;
using Buffer = std::vector<std::byte>;

class Corpus {
 public:
  explicit Corpus(std::filesystem::path root) : root_(std::move(root)) {}
  void add(const std::string& target, const std::string& name, unsigned first, ByteView data) const {
    std::filesystem::create_directories(root_ / target);
    std::ofstream file(root_ / target / name, std::ios::binary);
    file.put(static_cast<char>(first));
    file.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
  }
  void add(const std::string& target, const std::string& name, unsigned first, const std::string& text) const {
    add(target, name, first, bytes_of(text));
  }

 private:
  std::filesystem::path root_;
};

Member member(std::int32_t rank) {
  Member made;
  made.rank = Rank{rank};
  made.pid = 4711;
  made.process[3] = std::byte{7};
  made.host = std::make_shared<const MemberHost>(
      MemberHost{.name = "node", .id = "boot:1", .addresses = {{}, {.family = 6, .bytes = {}}}});
  made.resources = std::make_shared<const MemberResources>(
      MemberResources{.cores = "0,2-3", .segment_bytes = 1 << 20, .device = "GPU"});
  made.port = 500;
  return made;
}

void add_messages(const Corpus& corpus) {
  JoinMessage join;
  join.member = member(3);
  join.ranks = 4;
  join.timeout_ms = 1000;
  join.agreed = {{"TUTTI_ALGO", "ring"}, {"x", ""}};
  TableMessage table;
  table.comm_id = 99;
  for (int i = 0; i < 3; ++i) table.members.push_back(member(i));
  corpus.add("message", "join", 0, encode(join));
  corpus.add("message", "table", 1, encode(table));
  corpus.add("message", "missing", 2, encode(MissingMessage{"ranks 1 and 2"}));
  corpus.add("message", "ready", 3, encode(ReadyMessage{true}));
  corpus.add("message", "failure", 4, encode(FailureMessage{Code::kTimeout, "late"}));
  corpus.add("message", "introduce", 5, encode(IntroduceMessage{}));
  corpus.add("message", "segment", 6, encode(SegmentMessage{4096}));
  corpus.add(
      "message", "member_events", 7,
      encode(MemberEventsMessage{{{Rank{1}, MemberEventKind::kDead, 7, "gone"},
                                  {Rank{2}, MemberEventKind::kFinalized, 8, ""},
                                  {Rank{0}, MemberEventKind::kFinished, 8, "", {{.sequence = 7}, {.sequence = 8}}}}}));
  corpus.add("message", "cause", 8, encode(FailureCause{Code::kMismatch, Rank{0}, Rank{1}, "why"}));
  corpus.add("message", "ask_id", 9, encode(AskIdMessage{1, Rank{1}}));
  corpus.add("message", "give_id", 10, encode(GiveIdMessage{1, true, {}}));
  corpus.add("message", "data_connection", 11, encode(DataConnectionMessage{{}, Rank{0}, Rank{1}, Lane{2}}));
  corpus.add("message", "place", 14, encode(TableSourceMessage{member(2)}));
  corpus.add("message", "go", 15, encode(GoMessage{{Rank{1}}, "advice"}));
  CallBoard board{};
  Call call{};
  call.sequence = 1;
  board.begin(call);
  corpus.add("message", "board", 13, encode(read_board(Rank{1}, board, 2)));
  corpus.add("message", "finishing", 18, encode(FinishingMessage{40, true}));
  corpus.add("message", "request_dial", 12, encode(RequestDialMessage{Rank{0}, Rank{1}, Lane{2}, 3}));
}

void append(Buffer* to, ByteView data) { to->insert(to->end(), data.begin(), data.end()); }

/// As the fuzz targets read them: in the handshake each message after one byte, at the connection after its size.
void add_handshake(const Corpus& corpus) {
  constexpr KeyId kId{std::byte{1}};
  const Key kSecret{std::byte{7}};
  Handshake client = Handshake::client(Role::kControl, kId, kSecret);
  Handshake server = Handshake::server([&](Role, const KeyId&, Key* secret) { return *secret = kSecret, true; });
  Buffer hello;
  Buffer challenge;
  Buffer proof;
  if (!client.start(&hello).ok() || !server.consume(hello, &challenge).ok() || !client.consume(challenge, &proof).ok())
    std::abort();
  Buffer messages{std::byte{0}};
  append(&messages, hello);
  messages.push_back(std::byte{0});
  append(&messages, proof);
  corpus.add("handshake", "server", 1, messages);
  messages.assign(1, std::byte{0});
  append(&messages, challenge);
  corpus.add("handshake", "client", 0, messages);
  Buffer pieces{std::byte{63}, std::byte{0}};
  append(&pieces, challenge);
  corpus.add("connection", "client", 0, pieces);
  pieces.assign({std::byte{63}, std::byte{0}});
  append(&pieces, hello);
  append(&pieces, Buffer{std::byte{31}, std::byte{0}});
  append(&pieces, proof);
  corpus.add("connection", "server", 1, pieces);
  pieces.assign({std::byte{40}, std::byte{0}});
  append(&pieces, Buffer(300, std::byte{0}));
  corpus.add("connection", "unsigned_frames", 2, pieces);
  const Buffer cause = encode(FailureCause{Code::kTimeout, Rank{0}, Rank{1}, "x"});
  Buffer frames{std::byte{1}, static_cast<std::byte>(cause.size()), std::byte{0}, std::byte{11}};
  append(&frames, cause);
  append(&frames, Buffer{std::byte{5}, std::byte{1}, std::byte{2}, std::byte{0}, std::byte{9}, std::byte{1}});
  corpus.add("connection", "signed_frames", 3, frames);
}

/// The first bytes of a TLS client, as the server's side of a connection gets them.
void add_tls_hello(const Corpus& corpus) {
  std::unique_ptr<TlsSession> session;
  int sockets[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets) != 0) std::abort();
  const Descriptor mine(sockets[0]);
  const Descriptor other(sockets[1]);
  SocketState state = SocketState::kAgain;
  if (!TlsSession::client(mine.get(), tls_identity(Role::kControl, KeyId{std::byte{1}}), TlsKey{}, &session).ok() ||
      !session->handshake(&state).ok())
    std::abort();
  Buffer hello(4096);
  hello.resize(static_cast<std::size_t>(::recv(other.get(), hello.data(), hello.size(), 0)));
  Buffer pieces{static_cast<std::byte>((hello.size() - 1) & 0xff), static_cast<std::byte>((hello.size() - 1) >> 8)};
  append(&pieces, hello);
  corpus.add("connection", "tls_hello", 1, pieces);
}

void add_ids(const Corpus& corpus) {
  UniqueId id;
  id.secret[0] = std::byte{1};
  id.port = 54321;
  id.addresses.resize(4);
  id.addresses[2].family = 6;
  corpus.add("id", "id", 0, id.encode());
  corpus.add("id", "file", 1, "tutti meeting 1 7 " + to_hex(id.encode()) + "\n");
}

void add_texts(const Corpus& corpus) {
  corpus.add("text", "url_tcp", 0, "tcp://[2001:db8::1]:4711");
  corpus.add("text", "url_host", 0, "tcp://node1:4711");
  corpus.add("text", "url_file", 0, "file:///tmp/x");
  corpus.add("text", "url_env", 0, "env://");
  corpus.add("text", "identity", 1, tls_identity(Role::kData, KeyId{std::byte{0xab}}));
  corpus.add("text", "slurm", 2, "n[001-003,7],m1");
  corpus.add("text", "pmi", 3, "cmd=barrier_out rc=0 msg=success");
  corpus.add("text", "interfaces", 4, "^=eth0,lo:1");
  const char* const values[] = {"auto", "20000-20100", "0,2-3", "1.5M", "on", "600", "-1", "trace"};
  for (unsigned i = 0; i < std::size(values); ++i)
    corpus.add("text", "setting_" + std::to_string(i), 64 + 5 * i, values[i]);
}

/// Numbers of names and sizes as launcher_fuzz.cc has them.
void add_environments(const Corpus& corpus) {
  const auto variable = [](unsigned name, const std::string& value) {
    return std::string{static_cast<char>(name), static_cast<char>(value.size())} + value;
  };
  const std::string torchrun = variable(1, "4") + variable(3, "127.0.0.1") + variable(4, "29500") + variable(5, "none");
  corpus.add("launcher", "torchrun", 0,
             "\x01"
             "2" +
                 torchrun);
  corpus.add("launcher", "open_mpi", 7,
             "\x01"
             "1" +
                 variable(8, "2") + variable(10, "2") + variable(11, "1;tcp://1"));
  corpus.add("launcher", "mpich", 12,
             "\x01"
             "1" +
                 variable(13, "2") + variable(14, "5"));
  corpus.add("launcher", "slurm", 20,
             "\x01"
             "1" +
                 variable(21, "2") + variable(27, "3") + variable(24, "2"));
}

void add_frames(const Corpus& corpus) {
  for (unsigned kind = 0; kind < 4; ++kind) {
    TcpFrame frame;
    frame.kind = static_cast<FrameKind>(kind);
    frame.payload = kind == 2 ? 0 : 4096;
    frame.sequence = 5;
    frame.released = {1, 2};
    frame.flags = kind % 2 == 0 ? 0 : kChecksummed;
    std::array<std::byte, TcpFrame::kBytes> bytes{};
    encode(frame, bytes);
    corpus.add("frame", "kind_" + std::to_string(kind), kind % 2, bytes);
  }
}

/// Steps as root_fuzz.cc, membership_fuzz.cc, join_fuzz.cc and link_fuzz.cc have them: what honest ranks do.
void add_scenes(const Corpus& corpus) {
  using Steps = std::basic_string<unsigned char>;
  const auto add = [&](const std::string& target, const std::string& name, const Steps& steps) {
    corpus.add(target, name, steps[0], std::as_bytes(std::span(steps).subspan(1)));
  };
  constexpr unsigned char kJoin = 1, kMissing = 2, kTable = 3, kReady = 4, kGo = 5, kFailure = 6, kSegment = 8,
                          kLinked = 9, kMemberEvents = 10, kCause = 11, kTableSource = 12, kRequestDial = 15,
                          kAskBoard = 18, kBoard = 19, kShrinkReport = 20, kShrinkOrder = 21, kAskWhy = 22, kLate = 23,
                          kFinishing = 24;
  add("root", "all_go", {0, kJoin, 0, 1, kJoin, 0, 2, kJoin, 0, 0, kReady, 0, 1, kReady, 0, 2, kReady, 0});
  add("root", "one_fails", {0, kJoin, 0, 1, kJoin, 0, 2, kJoin, 0, 0, kReady, 0, 1, kFailure, 0, 2, kReady, 0});
  add("root", "all_late", {0, kJoin, 0, 1, kJoin, 0, 2, kJoin, 0, 0, kReady, 0, 1, kLate, 0, 2, kLate, 0});
  add("root", "one_ends", {0, kJoin, 0, 1, kJoin, 0, 0xf1});

  // The first rank has the table and is connected to the others.
  const Steps linked{0, 0, 0, 4, 0, 0, 0x84, 0, 0, 7, kLinked, 0, 0x87, kLinked, 0};
  add("membership", "linked", linked);
  add("membership", "shrink",
      linked + Steps{6, 6, 7, kShrinkReport, 0, 0x87, kShrinkReport, 0, 6, 6, 7, kShrinkOrder, 0, 6, 6});
  for (const unsigned char type : {kMemberEvents, kCause, kRequestDial, kAskBoard, kBoard, kShrinkReport, kShrinkOrder})
    add("membership", "linked_" + std::to_string(type), linked + Steps{7, type, 0, 0x87, type, 0});
  add("membership", "data", linked + Steps{3, 0, 0x83, 0, 6, 6});
  for (const unsigned char act : {0, 1, 2, 3, 4, 5, 6})
    add("membership", "act_" + std::to_string(act), linked + Steps{6, act, 7, kMemberEvents, 0});
  add("membership", "sparse",
      {0x10, 0, 0, 4, 0, 0, 0x84, 0x80, 0, 7, kLinked, 0, 0x87, kLinked, 0, 7, kMemberEvents, 0, 7, kCause, 0});
  add("membership", "finishing", {0x10, 0,       0, 4, 0,          0, 0x84, 0x80,       0, 7, kLinked, 0,
                                  0x87, kLinked, 0, 7, kFinishing, 0, 0x87, kFinishing, 0, 6, 4});
  add("membership", "memory", {1, 0, 0, 0x84, 0, 0, 0x87, kSegment, 0, 3, 0x87, kLinked, 0});
  add("membership", "place", {2, 1, 0, 0});

  add("join", "table", {kMissing, 0, kTable, 1, kGo, 0});
  add("join", "one_process", {kTable, 3, kGo, 0});
  add("join", "place", {kTableSource, 0, kGo, 0});
  add("join", "failure", {kFailure, 0});
  add("join", "why", {kTableSource, 0, kAskWhy, 0, kAskWhy, 0});

  const Steps open{0, 0, 3, 0, 0, 0, 0, 0};  // a connection, and the peer's greeting
  for (const unsigned char checksum : {0, 1}) {
    const std::string name = checksum == 0 ? "" : "_checked";
    add("link", "message" + name, Steps{checksum} + open + Steps{9, 0, 8, 0, 0, 0, 7, 7, 7, 8, 0});
    add("link", "sends" + name, Steps{checksum} + open + Steps{1, 4, 0x21, 4, 9, 2, 0, 0, 1, 0, 0, 6, 5});
    add("link", "again" + name, Steps{checksum} + open + Steps{1, 4} + open + Steps{4, 6});
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  const Corpus corpus(arguments[1]);
  add_messages(corpus);
  add_handshake(corpus);
  add_tls_hello(corpus);
  add_ids(corpus);
  add_texts(corpus);
  add_environments(corpus);
  add_frames(corpus);
  add_scenes(corpus);
  return 0;
}

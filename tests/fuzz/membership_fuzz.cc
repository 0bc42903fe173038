// A rank is in a communicator of three processes; the input speaks for the root and for the two others, who have the
// secret and have gone wrong: over control connections and over those that carry data.
#include "comm/membership/process_membership.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>

#include <array>

#include "comm/membership/hub.h"
#include "comm/messages/unique_id.h"
#include "comm/recovery/process_recovery.h"
#include "core/log.h"
#include "messages.h"
#include "speaker.h"

namespace {

using namespace tutti;

constexpr KeyId kId{std::byte{1}};
const Key kSecret{std::byte{7}};
constexpr rlim_t kDescriptors = 65536;

/// Two ends of a TCP connection over the loopback, whose ports are free again at once.
fuzz::SocketPair tcp_pair() {
  static const Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  static const bool listens =
      ::bind(listener.get(), reinterpret_cast<sockaddr*>(&at), size) == 0 && ::listen(listener.get(), 8) == 0;
  fuzz::demand(listens && ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &size) == 0, "a port");
  Descriptor other(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  fuzz::demand(::connect(other.get(), reinterpret_cast<sockaddr*>(&at), size) == 0, "a connection");
  Socket tested(Descriptor(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)));
  const int on = 1;  // what is said comes at once
  ::setsockopt(other.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const linger none{1, 0};
  ::setsockopt(other.get(), SOL_SOCKET, SO_LINGER, &none, sizeof none);
  return {std::move(other), std::move(tested)};
}

/// Runs in the hub's thread.
class Scene {
 public:
  Scene(Hub& hub, unsigned kind)
      : hub_(hub), self_(static_cast<std::int32_t>(kind % fuzz::kRanks)), membership_(hub.membership(kId, kSecret)) {
    ProcessMembership::LocalRank local;
    local.rank = Rank{self_};
    local.terms.mesh = (kind & 0x10) != 0 ? 1 : 32;
    local.terms.reconnect_seconds = (kind & 0x20) != 0 ? 0 : 10;
    local.terms.host_id = fuzz::member(0).host->id;
    const auto linked = [this](const Status& why) {
      linked_ = why.ok() && membership_->member_table()->ranks() == fuzz::kRanks;
    };
    recovery_ = std::make_shared<ProcessRecovery>(
        hub, *membership_, ProcessRecovery::IdServer{[](const UniqueId&) { return Status(); }, [](const KeyId&) {}});
    membership_->set_listener(recovery_);
    linker_ = membership_->add_local(local, linked);
    fuzz::demand(linker_ != nullptr, "a process membership takes its first rank");
    UniqueId id;
    id.secret = kSecret;
    id.nonce = kId;
    fuzz::demand(membership_->key_for(hub.process(), &door_).ok() && id.comm_id(&comm_id_).ok(), "keys");
  }
  ~Scene() {
    membership_->remove_local(Rank{self_});
    recovery_.reset();
    fuzz::demand(!call_ || call_->has_ended(), "every shrink ends");
  }

  /// False: the join has failed.
  bool step(fuzz::Bytes& input) {
    const unsigned what = input.u8();
    const std::int32_t other = (self_ + 1 + static_cast<std::int32_t>(what >> 7)) % fuzz::kRanks;
    std::unique_ptr<fuzz::Speaker>& speaker = speakers_[what >> 6];  // two for each of the others
    switch (what % 16) {
      case 0:
        return linker_->begin(table(input)).ok();
      case 1:
        return follow(input);
      case 2:
        speaker.reset();
        return true;
      case 3:
        return connect(speaker, Role::kData, other, input), true;
      case 4:
      case 5:
        return connect(speaker, Role::kControl, other, input), true;
      case 6:
        return act(input.u8(), other), true;
      default:
        return speak(speaker, other, input), true;
    }
  }

 private:
  static std::shared_ptr<const MemberHost> another_host() {
    return std::make_shared<const MemberHost>(MemberHost{.id = "another"});
  }
  std::vector<std::byte> table(fuzz::Bytes& input) const {
    TableMessage made = fuzz::table();
    made.comm_id = comm_id_;
    made.members[static_cast<std::size_t>(self_)].process = hub_.process();
    const unsigned how = input.u8();
    if ((how & 1) != 0) made.members[input.u8() % fuzz::kRanks].host = another_host();
    if ((how & 2) != 0) made.members[input.u8() % fuzz::kRanks].resources = MemberResources::unknown();
    if ((how & 4) != 0) made.members[input.u8() % fuzz::kRanks].process = hub_.process();
    if ((how & 8) != 0) made.members.resize(input.u8() % (fuzz::kRanks + 1));
    std::vector<std::byte> payload = encode(made);
    fuzz::change(&payload, how >> 6, input);
    return payload;
  }
  bool follow(fuzz::Bytes& input) const {
    TableSourceMessage source;
    const std::vector<std::byte> payload =
        fuzz::payload_of(MessageType::kTableSource, input.u8() % fuzz::kRanks, input);
    return decode(payload, &source).ok() && linker_->follow(source).ok();
  }
  void connect(std::unique_ptr<fuzz::Speaker>& speaker, Role role, std::int32_t other, fuzz::Bytes& input) {
    const auto lookup = [this](Role, const KeyId&, Key* secret) { return *secret = door_, true; };
    speaker.reset();
    const bool data = role == Role::kData;
    fuzz::SocketPair sockets = data ? tcp_pair() : input.u8() < 0x80 ? fuzz::unix_pair() : fuzz::stream_pair();
    speaker =
        std::make_unique<fuzz::Speaker>(hub_.loop(), std::move(sockets), Handshake::server(lookup), ConnectionEvents{});
    speaker->pass(role, kId, door_);
    data ? membership_->connector().serve(speaker->connection()) : membership_->serve(speaker->connection());
    const MessageType first = data ? MessageType::kOpenData : MessageType::kIntroduce;
    speaker->say(first, data ? line_from(other, input) : fuzz::payload_of(first, other, input));
  }
  std::vector<std::byte> line_from(std::int32_t other, fuzz::Bytes& input) const {
    DataConnectionMessage line{fuzz::member(other).process, Rank{other}, Rank{self_}, Lane{0}};
    if (const unsigned lane = input.u8(); lane >= 0x80) line.lane = Lane{static_cast<std::uint16_t>(lane)};
    return encode(line);
  }
  /// What the ranks here do, once they are linked.
  void act(unsigned what, std::int32_t other) {
    if (!linked_) return;
    switch (what % 8) {
      case 0:
        return membership_->let_go(what >= 0x80, 1);
      case 1:
        return membership_->post_cause(Rank{self_}, FailureCause{Code::kTimeout, Rank{self_}, Rank{other}, "late"});
      case 2:
        return membership_->say_goodbye(Rank{self_}, what, what >= 0x80);
      case 3:
        return membership_->abandon(Rank{self_}, Status());
      case 4:
        return membership_->ask_boards({Rank{0}, Rank{1}, Rank{2}}, 8);
      case 5:
        return membership_->publish_board(Rank{self_});
      case 6:
        return shrink(what, other);
      default:
        return membership_->connector().want(DataConnectionId{Rank{self_}, Rank{other}, Lane{0}}, what % 2);
    }
  }
  /// The rank shrinks, or answers what it was asked to build.
  void shrink(unsigned what, std::int32_t other) {
    if (call_ && !call_->has_ended()) {
      if (const auto build = call_->take_build()) call_->report(build->number, Status());
      if (what >= 0xc0) call_->abandon();
      recovery_->look_at_calls();
      if (what < 0xc0) return;
      call_.reset();
    }
    NumberSet excluded;
    if (what >= 0x80) excluded.add(Rank{other});
    call_ = std::make_shared<ShrinkCall>(Rank{self_}, excluded, Deadline::never());
    recovery_->call(call_);
  }
  void speak(const std::unique_ptr<fuzz::Speaker>& speaker, std::int32_t other, fuzz::Bytes& input) {
    if (!speaker) return;
    const auto type = static_cast<MessageType>(input.u8() % fuzz::kTypes);
    const std::vector<std::byte> payload = fuzz::payload_of(type, other, input);
    if (type == MessageType::kSegment && speaker->connection()->is_unix()) {
      const unsigned pages = input.u8() % 8;
      if (pages != 0) speaker->say_with_memory(type, payload, pages * fuzz::kSegment);
      if (pages != 0) return;
    }
    speaker->say(type, payload);
    speaker->listen();
  }

  Hub& hub_;
  const std::int32_t self_;
  const std::shared_ptr<ProcessMembership> membership_;
  std::shared_ptr<ProcessRecovery> recovery_;
  std::shared_ptr<ShrinkCall> call_;
  std::shared_ptr<MembershipLinker> linker_;
  Key door_{};
  std::uint64_t comm_id_ = 0;
  bool linked_ = false;
  std::array<std::unique_ptr<fuzz::Speaker>, 4> speakers_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static std::shared_ptr<Hub> hub;
  if (!hub) {
    log_configure(LogLevel::kTrace, "/dev/null");
    const rlimit all{kDescriptors, kDescriptors};  // connections that were turned away stay open for a moment
    (void)::setrlimit(RLIMIT_NOFILE, &all);
    fuzz::demand(Hub::acquire(Settings{}, &hub).ok(), "a hub");
  }
  const Status played = hub->ask([data, size](const std::shared_ptr<Hub>& there) {
    fuzz::Bytes input(data, size);
    Scene scene(*there, input.u8());
    while (!input.empty())
      if (!scene.step(input)) break;
    return Status();
  });
  fuzz::demand(played.ok(), "the service thread goes on");
  return 0;
}

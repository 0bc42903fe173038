// The messages between hubs. Values out of range are refused.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "comm/membership/membership.h"
#include "comm/membership/unique_id.h"
#include "net/address.h"
#include "net/codec.h"
#include "net/crypto.h"

namespace tutti {

/// Values travel: append only. docs/design/rendezvous.md has the table.
enum class MessageType : std::uint16_t {
  kJoin = 1,           ///< rank to root
  kMissing = 2,        ///< root to rank: who has not joined yet
  kTable = 3,          ///< root to the first process, and from process to process: everybody
  kReady = 4,          ///< rank to root: linked to its neighbours, the host's memory mapped or known to be out of reach
  kGo = 5,             ///< root to rank: all ranks are ready
  kFailure = 6,        ///< either way: the join has failed
  kIntroduce = 7,      ///< process to process: who opened this connection
  kSegment = 8,        ///< process to process, with a descriptor: the shared memory of their host
  kLinked = 9,         ///< process to process: the connection counts
  kMemberEvents = 10,  ///< process to process: which ranks are finishing, have left or died
  kCause = 11,
  kTableSource = 12,  ///< root to rank: the process that the table comes from
  kAskId = 13,
  kGiveId = 14,
  kRequestDial = 15,  ///< process to process: a rank asks another to dial it
  kOpenData = 16,     ///< first on a data connection
  kDataOpened = 17,   ///< its answer: what follows is the endpoints'
  kAskBoard = 18,     ///< process to process: how do the call boards of your ranks stand
  kBoard = 19,        ///< one of them
};

/// A setting that must agree on all ranks: a difference is tuttiMismatch and names setting, values and ranks.
struct AgreedSetting {
  std::string name;
  std::string value;
};

/// The most ranks a join accepts: what a table can hold in one message.
inline constexpr int kMaxRanks = 65536;
/// A year, in milliseconds: who waits longer waits for ever.
inline constexpr std::uint64_t kMaxTimeout = 365ull * 24 * 3600 * 1000;

/// A process, for as long as its hub lives.
using ProcessId = std::array<std::byte, 16>;

/// A rank, as the others need to know it.
struct Member {
  Rank rank = kNoRank;
  std::uint32_t pid = 0;
  ProcessId process{};
  std::string host_name;    ///< for texts
  std::string host_id;      ///< equal: perhaps the same host
  std::string socket_name;  ///< of the hub's abstract unix socket
  std::uint16_t port = 0;
  std::vector<IpAddress> addresses;
  std::uint64_t segment_bytes = 0;  ///< 0: no segment
  std::uint64_t boot_id = 0;        ///< as in HostIdentity: equal on ranks with the same cores; 0: unknown
  std::string cores;                ///< those that its thread may use, such as "0,2-3"; empty: unknown
  std::string device;               ///< its device, as DeviceInfo writes it; empty: it uses none
};

/// "rank 2", "ranks 2 and 3", "ranks 2, 3, 4 and 7 more".
std::string text_of(const std::vector<Rank>& ranks);
/// "process 4711 on host x".
std::string describe(const Member& member);

struct JoinMessage {
  Member member;
  std::int32_t ranks = 0;
  std::uint64_t timeout_ms = 0;  ///< until the deadline, at most kMaxTimeout; 0: none
  std::vector<AgreedSetting> agreed;
  std::string
      costs_text;  ///< rank 0 sends it for all ranks, the others an empty one; at most MessageWriter::kMaxText bytes
};

struct TableMessage {
  std::uint64_t comm_id = 0;
  std::vector<Member> members;  ///< by rank
};

struct MissingMessage {
  std::vector<Rank> ranks;
};

struct ReadyMessage {
  bool mapped = false;  ///< the segments of all ranks with this one's host id
};

struct GoMessage {
  std::vector<Rank> apart;  ///< ranks that could not map their host's segments
  std::string costs_text;   ///< of rank 0, for all
};

struct FailureMessage {
  Code code = Code::kInternalError;
  std::string text;
};

struct IntroduceMessage {
  ProcessId process{};
};

struct SegmentMessage {
  std::uint64_t bytes = 0;  ///< of the memory whose descriptor comes with it; 0: there is none
};

struct TableSourceMessage {
  Member parent;
};

/// kFinishing: the rank lives and has come to its last operation, Finalize. The others are ends of a rank.
enum class MemberEventKind : std::uint8_t { kFinishing = 0, kLeft = 1, kDead = 2 };

struct MemberEvent {
  Rank rank = kNoRank;
  MemberEventKind kind = MemberEventKind::kFinishing;
  std::uint64_t sequence = 0;  ///< of its last operation
  std::string note;            ///< of a death: "not reachable for 10 s"
};

/// At most kMaxItems, so that it fits a control message.
struct MemberEventsMessage {
  static constexpr std::size_t kMaxItems = 256;
  std::vector<MemberEvent> items;
};

struct AskIdMessage {
  std::uint64_t round = 0;  ///< the k-th join by this URL
  Rank rank = kNoRank;
  Key public_key{};  ///< of the agreement that hides the id's secret from listeners
};

struct GiveIdMessage {
  std::uint64_t round = 0;  ///< of the newest id; 0: none yet
  bool given = false;       ///< the id asked for
  Key public_key{};         ///< the answering end's part of the agreement
  IdBytes id{};             ///< its secret masked, see mask_id()
};

/// The bytes of any message above, and of a FailureCause. Texts and lists are cut at their limits.
template <class Message>
std::vector<std::byte> encode(const Message& message);
/// kRemoteError: these are not the bytes of such a message, or a value is out of range.
template <class Message>
Status decode(ByteView data, Message* message);

}  // namespace tutti

// The messages between hubs. Values out of range are refused.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "comm/messages/failure_cause.h"
#include "comm/messages/member.h"
#include "comm/messages/unique_id.h"
#include "core/fingerprint.h"
#include "net/codec.h"
#include "net/crypto.h"

namespace tutti {

/// The values travel, so new ones are only appended. docs/design/rendezvous.md has the table.
enum class MessageType : std::uint16_t {
  kJoin = 1,     ///< rank to root
  kMissing = 2,  ///< root to rank: some ranks have not joined yet
  kTable = 3,    ///< root to the first process, and from process to process: all ranks
  kReady = 4,    ///< rank to root: connected to its neighbours; the host's memory is mapped or known to be out of reach
  kGo = 5,       ///< root to rank: all ranks are ready
  kFailure = 6,  ///< either way: the join has failed
  kIntroduce = 7,      ///< process to process: which process opened this connection
  kSegment = 8,        ///< process to process, with a descriptor: the shared memory of their host
  kLinked = 9,         ///< process to process: the sender has the table and uses the connection
  kMemberEvents = 10,  ///< process to process: which ranks are finishing, have left or died
  kCause = 11,
  kTableSource = 12,  ///< root to rank: which process the table comes from
  kAskId = 13,
  kGiveId = 14,
  kRequestDial = 15,   ///< process to process: a rank asks another to dial it
  kOpenData = 16,      ///< the first message on a data connection
  kDataOpened = 17,    ///< its answer; after it the connection belongs to the endpoints
  kAskBoard = 18,      ///< process to process: asks for the call boards of its ranks
  kBoard = 19,         ///< one of these boards
  kShrinkReport = 20,  ///< process to process: how far it is in a shrink (comm/recovery)
  kShrinkOrder = 21,   ///< the process that leads a shrink to the others
  kAskWhy = 22,        ///< root to rank: the join takes too long; what does the rank wait for?
  kLate = 23,          ///< rank to root: what it waits for, because its time is up or it was asked; as kFailure
  kFinishing = 24,     ///< process to process: all of some ranks have come to Finalize
};

/// A setting that must agree on all ranks. If it differs, the join fails with tuttiMismatch, and the text names
/// setting, values and ranks.
struct AgreedSetting {
  std::string name;
  std::string value;

  auto operator<=>(const AgreedSetting&) const = default;
};

/// A year, in milliseconds. A longer timeout means for ever.
inline constexpr std::uint64_t kMaxTimeout = 365ull * 24 * 3600 * 1000;

/// "rank 2", "ranks 2 and 3", "ranks 2, 3, 4 and 7 more".
std::string text_of(const std::vector<Rank>& ranks);
std::string text_of(const std::set<Rank>& ranks);

struct JoinMessage {
  Member member;
  std::int32_t ranks = 0;
  std::uint64_t timeout_ms = 0;  ///< until the deadline, at most kMaxTimeout; 0 if there is none
  std::vector<AgreedSetting> agreed;
  std::string
      costs_text;  ///< rank 0 sends it for all ranks, the others an empty one; at most MessageWriter::kMaxText bytes
};

struct TableMessage {
  std::uint64_t comm_id = 0;
  std::vector<Member> members;  ///< by rank, and each has its place as its rank
};

struct MissingMessage {
  std::string who;  ///< the ranks, as text_of() writes them
};

struct ReadyMessage {
  bool mapped = false;  ///< whether the segments of all ranks with this one's host id are mapped
};

struct GoMessage {
  std::vector<Rank> apart;  ///< ranks that could not map their host's segments
  std::string costs_text;   ///< rank 0's text, which holds for all
};

struct FailureMessage {
  Code code = Code::kInternalError;
  std::string text;
};

struct IntroduceMessage {
  ProcessId process{};
};

struct SegmentMessage {
  std::uint64_t bytes = 0;  ///< size of the memory whose descriptor comes with it; 0 if there is none
};

struct TableSourceMessage {
  Member parent;
};

/// kFinishing: the rank lives and has come to its last operation, Finalize. kFinished: it lives and has finished the
/// operation before the Finalize in which others wait. The other kinds are ends of a rank. kFinalized: it has left, and
/// all ranks have finished the operation `sequence`.
enum class MemberEventKind : std::uint8_t { kFinishing = 0, kLeft = 1, kDead = 2, kFinalized = 3, kFinished = 4 };

struct MemberEvent {
  Rank rank = kNoRank;
  MemberEventKind kind = MemberEventKind::kFinishing;
  std::uint64_t sequence = 0;  ///< of Finalize, if it is finishing; else of the last operation that it had finished, 0
                               ///< if that is not known
  std::string note;            ///< what is known of a death, such as "not reachable for 10 s"
  /// The rank's newest calls up to that operation, which is the last of them, if the kind is kFinished. Ranks that
  /// waited for it compare them with their own.
  std::vector<Call> calls = {};

  /// Whether the other event differs from this one in its rank at most.
  bool is_like(const MemberEvent& other) const {
    return kind == other.kind && sequence == other.sequence && note == other.note && calls == other.calls;
  }
};

/// It has at most kMaxItems items, so that it fits a control message. If events next to each other differ in
/// their ranks only, the rest travels once, because most ranks leave after the same operation.
struct MemberEventsMessage {
  static constexpr std::size_t kMaxItems = 256;
  static constexpr std::size_t kMaxCalls = 8;  // of one event
  std::vector<MemberEvent> items;
};

/// Many ranks have come to Finalize: those of the sending process and of all below it in the tree
/// (comm/membership/finalize_tree.h), or all of the communicator.
struct FinishingMessage {
  std::uint64_t sequence = 0;  ///< the number of that operation; never 0
  bool all = false;
};

struct AskIdMessage {
  std::uint64_t round = 0;  ///< k for the k-th join by this URL
  Rank rank = kNoRank;
  Key public_key{};  ///< the asking end's part of the key agreement that hides the id's secret from listeners
};

struct GiveIdMessage {
  std::uint64_t round = 0;  ///< the round of the newest id; 0 if there is none yet
  bool given = false;       ///< whether the id is there that was asked for
  Key public_key{};         ///< the answering end's part of the agreement
  IdBytes id{};             ///< the id, with its secret masked by mask_id()
};

/// Makes the bytes of any message above, or of a FailureCause. Texts and lists are cut at their limits.
template <class Message>
std::vector<std::byte> encode(const Message& message);
/// Returns kRemoteError if these are not the bytes of such a message, or a value is out of range.
template <class Message>
Status decode(ByteView data, Message* message);

}  // namespace tutti

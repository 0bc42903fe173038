// A message of each type, as hubs send them to each other: what the fuzz targets begin with.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "bytes.h"
#include "comm/messages/board_message.h"
#include "comm/messages/data_connection_message.h"
#include "comm/messages/messages.h"
#include "comm/recovery/agreement_message.h"

namespace tutti::fuzz {

inline constexpr int kRanks = 3;
inline constexpr std::size_t kSegment = 4096;
inline constexpr unsigned kTypes = static_cast<unsigned>(MessageType::kFinishing) + 1;

/// Rank `rank` of three, each a process of its own, on one host.
inline Member member(std::int32_t rank) {
  Member made;
  made.rank = Rank{rank};
  made.pid = 4711;
  made.process[3] = static_cast<std::byte>(rank + 1);
  made.host = std::make_shared<const MemberHost>(MemberHost{.name = "node", .id = "boot:1"});
  made.resources = std::make_shared<const MemberResources>(
      MemberResources{.cores = "0,2-3", .segment_bytes = kSegment, .device = "GPU"});
  made.port = 500;
  return made;
}

inline TableMessage table() {
  TableMessage made;
  made.comm_id = 99;
  for (int rank = 0; rank < kRanks; ++rank) made.members.push_back(member(rank));
  return made;
}

inline JoinMessage join_of(std::int32_t rank) {
  JoinMessage join;
  join.member = member(rank);
  join.ranks = kRanks;
  join.timeout_ms = 1000;
  join.agreed = {{"TUTTI_ALGO", "ring"}, {"x", ""}};
  return join;
}

inline BoardMessage board_of(std::int32_t rank) {
  CallBoard board{};
  Call call{};
  call.sequence = 1;
  board.begin(call);
  return read_board(Rank{rank}, board, 2);
}

/// A report or an order of the first round, in which rank `rank` has called and leads if it can.
template <class Message>
std::vector<std::byte> shrink_message(std::int32_t rank) {
  Message made;
  made.number = static_cast<std::uint64_t>(rank) + 1;
  made.stage = ShrinkStage::kBuilding;
  for (std::int32_t member = 0; member < kRanks; ++member) made.proposal.members.add(Rank{member});
  if constexpr (std::is_same_v<Message, ShrinkReport>) {
    made.promised = made.number;
    made.called.add(Rank{rank});
  }
  return encode(made);
}

/// What an honest process of that rank might say; of a type that there is not, nothing.
inline std::vector<std::byte> honest(MessageType type, std::int32_t rank) {
  const ProcessId process = member(rank).process;
  const Rank self{rank};
  const Rank next{(rank + 1) % kRanks};
  switch (type) {
    case MessageType::kJoin:
      return encode(join_of(rank));
    case MessageType::kMissing:
      return encode(MissingMessage{text_of(std::vector<Rank>{next})});
    case MessageType::kTable:
      return encode(table());
    case MessageType::kReady:
      return encode(ReadyMessage{true});
    case MessageType::kGo:
      return encode(GoMessage{{self}, "advice"});
    case MessageType::kFailure:
    case MessageType::kLate:
      return encode(FailureMessage{Code::kTimeout, "late"});
    case MessageType::kIntroduce:
      return encode(IntroduceMessage{process});
    case MessageType::kSegment:
      return encode(SegmentMessage{kRanks * kSegment});
    case MessageType::kMemberEvents:
      return encode(
          MemberEventsMessage{{{self, MemberEventKind::kDead, 7, "gone"},
                               {next, MemberEventKind::kFinishing, 9, ""},
                               {next, MemberEventKind::kFinalized, 8, ""},
                               {self, MemberEventKind::kFinished, 8, "", {{.sequence = 7}, {.sequence = 8}}}}});
    case MessageType::kFinishing:
      return encode(FinishingMessage{9, false});
    case MessageType::kCause:
      return encode(FailureCause{Code::kMismatch, self, next, "why"});
    case MessageType::kTableSource:
      return encode(TableSourceMessage{member(rank)});
    case MessageType::kAskId:
      return encode(AskIdMessage{1, self, {}});
    case MessageType::kGiveId:
      return encode(GiveIdMessage{1, true, {}, {}});
    case MessageType::kRequestDial:
      return encode(RequestDialMessage{self, next, Lane{0}, 0});
    case MessageType::kOpenData:
    case MessageType::kDataOpened:
      return encode(DataConnectionMessage{process, self, next, Lane{0}});
    case MessageType::kBoard:
      return encode(board_of(rank));
    case MessageType::kShrinkReport:
      return shrink_message<ShrinkReport>(rank);
    case MessageType::kShrinkOrder:
      return shrink_message<ShrinkOrder>(rank);
    case MessageType::kLinked:
    case MessageType::kAskBoard:
    case MessageType::kAskWhy:
      return {};
  }
  return {};
}

/// Sets so many bytes to what the input says, where it says.
inline void change(std::vector<std::byte>* payload, unsigned times, Bytes& input) {
  for (; times != 0 && !payload->empty(); --times) {
    const std::size_t at = input.u16() % payload->size();
    (*payload)[at] = static_cast<std::byte>(input.u8());
  }
}

/// The payload of a message as the input has it: an honest one with some of its bytes changed, or anything.
inline std::vector<std::byte> payload_of(MessageType type, std::int32_t rank, Bytes& input) {
  const unsigned how = input.u8();
  if (how >= 0xe0) {
    const auto any = input.take(how == 0xff ? input.u16() : input.u8());
    return {any.begin(), any.end()};
  }
  std::vector<std::byte> payload = honest(type, rank);
  change(&payload, how % 8, input);
  if ((how & 0x10) != 0) payload.resize(input.u16() % (payload.size() + 16));
  return payload;
}

}  // namespace tutti::fuzz

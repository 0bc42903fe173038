#include "comm/membership/messages.h"

#include <algorithm>

namespace tutti {
namespace {

constexpr std::size_t kMaxAddresses = 16;
constexpr std::size_t kMaxSettings = 256;
constexpr std::size_t kAddressSize = 17;
constexpr std::size_t kMemberSize = 66;  // the least that one can have
constexpr std::size_t kMemberEventSize = 17;
constexpr std::size_t kMaxNote = 128;
constexpr std::uint64_t kMaxSegment = std::uint64_t{1} << 46;  // an address space

void write_member(MessageWriter& out, const Member& member) {
  out.rank(member.rank);
  out.u32(member.pid);
  out.bytes(member.process);
  out.text(member.host_name);
  out.text(member.host_id);
  out.text(member.socket_name);
  out.u16(member.port);
  const std::size_t count = std::min(member.addresses.size(), kMaxAddresses);
  out.u32(static_cast<std::uint32_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    out.u8(member.addresses[i].family);
    out.bytes(member.addresses[i].bytes);
  }
  out.u64(member.segment_bytes);
  out.u64(member.kernel);
  out.text(member.cores);
  out.text(member.device);
}

void read_member(MessageReader& in, Member* member) {
  member->rank = in.rank();
  member->pid = in.u32();
  in.bytes(member->process);
  member->host_name = in.line();
  member->host_id = in.text();
  member->socket_name = in.text();
  member->port = in.u16();
  member->addresses.resize(in.count(kMaxAddresses, kAddressSize));
  for (IpAddress& address : member->addresses) {
    address.family = in.u8();
    in.bytes(address.bytes);
    if (address.family != 4 && address.family != 6) in.refuse();
  }
  member->segment_bytes = in.u64();
  member->kernel = in.u64();
  member->cores = in.text();
  member->device = in.text();
  if (member->rank.value < 0 || member->rank.value >= kMaxRanks) in.refuse();
  if (member->segment_bytes > kMaxSegment) in.refuse();
}

Code read_code(MessageReader& in) {
  const std::uint32_t value = in.u32();
  if (value == 0 || value > static_cast<std::uint32_t>(Code::kUnsupported)) in.refuse();
  return static_cast<Code>(value);
}

void write_ranks(MessageWriter& out, const std::vector<Rank>& ranks) {
  out.u32(static_cast<std::uint32_t>(ranks.size()));
  for (const Rank rank : ranks) out.rank(rank);
}

void read_ranks(MessageReader& in, std::vector<Rank>* ranks) {
  ranks->resize(in.count(kMaxRanks, 4));
  for (Rank& rank : *ranks) rank = in.rank();
}

}  // namespace

std::string text_of(const std::vector<Rank>& ranks) {
  constexpr std::size_t kShown = 16;
  const std::size_t shown = std::min(ranks.size(), kShown);
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < shown; ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i].value);
  }
  if (ranks.size() > shown) text += fmt::format(" and {} more", ranks.size() - shown);
  return text;
}

std::string describe(const Member& member) {
  return fmt::format("process {} on host {}", member.pid, member.host_name);
}

std::vector<std::byte> encode(const JoinMessage& message) {
  MessageWriter out;
  write_member(out, message.member);
  out.u32(static_cast<std::uint32_t>(message.ranks));
  out.u64(message.timeout_ms);
  const std::size_t count = std::min(message.agreed.size(), kMaxSettings);
  out.u32(static_cast<std::uint32_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    out.text(message.agreed[i].name);
    out.text(message.agreed[i].value);
  }
  out.text(message.from_rank_0);
  return out.data();
}

Status decode(ByteView data, JoinMessage* message) {
  MessageReader in(data);
  read_member(in, &message->member);
  message->ranks = static_cast<std::int32_t>(in.u32());
  message->timeout_ms = in.u64();
  message->agreed.resize(in.count(kMaxSettings, 8));
  for (AgreedSetting& setting : message->agreed) {
    setting.name = in.line();
    setting.value = in.line();
  }
  message->from_rank_0 = in.lines();
  if (message->ranks < 1 || message->ranks > kMaxRanks || message->timeout_ms > kMaxTimeout) in.refuse();
  return in.finish("join");
}

std::vector<std::byte> encode(const TableMessage& message) {
  MessageWriter out;
  out.u64(message.comm_id);
  out.u32(static_cast<std::uint32_t>(message.members.size()));
  for (const Member& member : message.members) write_member(out, member);
  return out.data();
}

Status decode(ByteView data, TableMessage* message) {
  MessageReader in(data);
  message->comm_id = in.u64();
  message->members.resize(in.count(kMaxRanks, kMemberSize));
  std::int32_t expected = 0;
  for (Member& member : message->members) {
    read_member(in, &member);
    if (member.rank.value != expected++) in.refuse();
    if (in.bad()) break;
  }
  return in.finish("table");
}

std::vector<std::byte> encode(const MissingMessage& message) {
  MessageWriter out;
  write_ranks(out, message.ranks);
  return out.data();
}

Status decode(ByteView data, MissingMessage* message) {
  MessageReader in(data);
  read_ranks(in, &message->ranks);
  return in.finish("missing-ranks");
}

std::vector<std::byte> encode(const GoMessage& message) {
  MessageWriter out;
  write_ranks(out, message.apart);
  out.text(message.from_rank_0);
  return out.data();
}

Status decode(ByteView data, GoMessage* message) {
  MessageReader in(data);
  read_ranks(in, &message->apart);
  message->from_rank_0 = in.lines();
  return in.finish("go");
}

std::vector<std::byte> encode(const ReadyMessage& message) {
  MessageWriter out;
  out.u8(message.mapped ? 1 : 0);
  return out.data();
}

Status decode(ByteView data, ReadyMessage* message) {
  MessageReader in(data);
  message->mapped = in.u8() != 0;
  return in.finish("ready");
}

std::vector<std::byte> encode(const FailureMessage& message) {
  MessageWriter out;
  out.u32(static_cast<std::uint32_t>(message.code));
  out.text(message.text);
  return out.data();
}

Status decode(ByteView data, FailureMessage* message) {
  MessageReader in(data);
  message->code = read_code(in);
  message->text = in.line();
  return in.finish("failure");
}

std::vector<std::byte> encode(const IntroduceMessage& message) {
  MessageWriter out;
  out.bytes(message.process);
  return out.data();
}

Status decode(ByteView data, IntroduceMessage* message) {
  MessageReader in(data);
  in.bytes(message->process);
  return in.finish("introduction");
}

std::vector<std::byte> encode(const SegmentMessage& message) {
  MessageWriter out;
  out.u64(message.bytes);
  return out.data();
}

Status decode(ByteView data, SegmentMessage* message) {
  MessageReader in(data);
  message->bytes = in.u64();
  return in.finish("segment");
}

std::vector<std::byte> encode(const PlaceMessage& message) {
  MessageWriter out;
  write_member(out, message.parent);
  return out.data();
}

Status decode(ByteView data, PlaceMessage* message) {
  MessageReader in(data);
  read_member(in, &message->parent);
  return in.finish("place");
}

std::vector<std::byte> encode(const MemberEventsMessage& message) {
  MessageWriter out;
  out.u32(static_cast<std::uint32_t>(message.items.size()));
  for (const MemberEvent& item : message.items) {
    out.rank(item.rank);
    out.u8(static_cast<std::uint8_t>(item.kind));
    out.u64(item.sequence);
    out.text(std::string_view(item.note).substr(0, kMaxNote));
  }
  return out.data();
}

Status decode(ByteView data, MemberEventsMessage* message) {
  MessageReader in(data);
  message->items.resize(in.count(MemberEventsMessage::kMaxItems, kMemberEventSize));
  for (MemberEvent& item : message->items) {
    item.rank = in.rank();
    const std::uint8_t kind = in.u8();
    item.kind = static_cast<MemberEventKind>(kind);
    item.sequence = in.u64();
    item.note = in.line();
    if (kind > static_cast<std::uint8_t>(MemberEventKind::kDead) || item.note.size() > kMaxNote) in.refuse();
    if (item.sequence >> 62 != 0) in.refuse();
  }
  return in.finish("member event");
}

std::vector<std::byte> encode(const FailureCause& message) {
  MessageWriter out;
  out.u32(static_cast<std::uint32_t>(message.code));
  out.rank(message.from);
  out.rank(message.culprit);
  out.text(message.text);
  return out.data();
}

Status decode(ByteView data, FailureCause* message) {
  MessageReader in(data);
  message->code = read_code(in);
  message->from = in.rank();
  message->culprit = in.rank();
  message->text = in.line();
  return in.finish("cause");
}

std::vector<std::byte> encode(const AskIdMessage& message) {
  MessageWriter out;
  out.u64(message.round);
  out.rank(message.rank);
  out.bytes(message.public_key);
  return out.data();
}

Status decode(ByteView data, AskIdMessage* message) {
  MessageReader in(data);
  message->round = in.u64();
  message->rank = in.rank();
  in.bytes(message->public_key);
  return in.finish("id request");
}

std::vector<std::byte> encode(const GiveIdMessage& message) {
  MessageWriter out;
  out.u64(message.round);
  out.u8(message.given ? 1 : 0);
  out.bytes(message.public_key);
  out.bytes(message.id);
  return out.data();
}

Status decode(ByteView data, GiveIdMessage* message) {
  MessageReader in(data);
  message->round = in.u64();
  message->given = in.u8() != 0;
  in.bytes(message->public_key);
  in.bytes(message->id);
  return in.finish("id");
}

}  // namespace tutti

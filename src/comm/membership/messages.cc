#include "comm/membership/messages.h"

#include <algorithm>
#include <concepts>
#include <type_traits>

namespace tutti {
namespace {

constexpr std::size_t kMaxAddresses = 16;
constexpr std::size_t kMaxSettings = 256;
constexpr std::size_t kAddressSize = 17;
constexpr std::size_t kMemberSize = 66;  // the least that one can have
constexpr std::size_t kMemberEventSize = 17;
constexpr std::size_t kMaxNote = 128;
constexpr std::uint64_t kMaxSegment = std::uint64_t{1} << 46;  // an address space

/// Writes the fields that fields() names. Checks are for who reads.
class FieldWriter {
 public:
  template <class... Values>
  void operator()(const Values&... values) {
    (put(values), ...);
  }
  void line(const std::string& text, std::size_t limit = MessageWriter::kMaxText) {
    out_.text(std::string_view(text).substr(0, limit));
  }
  void lines(const std::string& text) { out_.text(text); }
  void text(const std::string& text) { out_.text(text); }
  template <class List, class Each>
  void list(const List& items, std::size_t limit, std::size_t /*least_bytes*/, const Each& each) {
    const std::size_t count = std::min(items.size(), limit);
    out_.u32(static_cast<std::uint32_t>(count));
    for (std::size_t i = 0; i < count; ++i) each(items[i]);
  }
  void check(bool) {}
  const std::vector<std::byte>& data() const { return out_.data(); }

 private:
  void put(bool value) { out_.u8(value ? 1 : 0); }
  void put(std::uint8_t value) { out_.u8(value); }
  void put(std::uint16_t value) { out_.u16(value); }
  void put(std::int32_t value) { out_.u32(static_cast<std::uint32_t>(value)); }
  void put(std::uint32_t value) { out_.u32(value); }
  void put(std::uint64_t value) { out_.u64(value); }
  void put(Rank value) { out_.rank(value); }
  void put(Code value) { out_.u32(static_cast<std::uint32_t>(value)); }
  void put(MemberEventKind value) { out_.u8(static_cast<std::uint8_t>(value)); }
  template <class Bytes>
  requires std::convertible_to<const Bytes&, ByteView>
  void put(const Bytes& value) { out_.bytes(value); }

  MessageWriter out_;
};

/// Reads them; what fails a check makes the whole message unreadable.
class FieldReader {
 public:
  explicit FieldReader(ByteView data) : in_(data) {}
  template <class... Values>
  void operator()(Values&... values) {
    (get(&values), ...);
  }
  /// Control characters are replaced; a text of more than `limit` bytes is refused.
  void line(std::string& text, std::size_t limit = MessageWriter::kMaxText) {
    text = in_.line();
    check(text.size() <= limit);
  }
  void lines(std::string& text) { text = in_.lines(); }
  void text(std::string& text) { text = in_.text(); }
  /// More than `limit` items, or more than `least_bytes` each leave room for, are refused.
  template <class List, class Each>
  void list(List& items, std::size_t limit, std::size_t least_bytes, const Each& each) {
    items.resize(in_.count(limit, least_bytes));
    for (auto& item : items) {
      each(item);
      if (in_.bad()) return;
    }
  }
  void check(bool right) {
    if (!right) in_.refuse();
  }
  Status finish(const char* what) const { return in_.finish(what); }

 private:
  void get(bool* value) { *value = in_.u8() != 0; }
  void get(std::uint8_t* value) { *value = in_.u8(); }
  void get(std::uint16_t* value) { *value = in_.u16(); }
  void get(std::int32_t* value) { *value = static_cast<std::int32_t>(in_.u32()); }
  void get(std::uint32_t* value) { *value = in_.u32(); }
  void get(std::uint64_t* value) { *value = in_.u64(); }
  void get(Rank* value) { *value = in_.rank(); }
  void get(Code* value) {
    const std::uint32_t code = in_.u32();
    check(code != 0 && code <= static_cast<std::uint32_t>(Code::kUnsupported));
    *value = static_cast<Code>(code);
  }
  void get(MemberEventKind* value) {
    const std::uint8_t kind = in_.u8();
    check(kind <= static_cast<std::uint8_t>(MemberEventKind::kDead));
    *value = static_cast<MemberEventKind>(kind);
  }
  template <class Bytes>
  requires std::convertible_to<Bytes&, std::span<std::byte>>
  void get(Bytes* value) { in_.bytes(*value); }

  MessageReader in_;
};

/// A message of that type, to be written or read.
template <class Given, class Message>
concept Of = std::is_same_v<std::remove_const_t<Given>, Message>;

// The fields of each message in the order in which they travel, for both directions, and its name in errors.

template <class Io>
void member(Io& io, Of<Member> auto& m) {
  io(m.rank, m.pid, m.process);
  io.line(m.host_name);
  io.text(m.host_id);
  io.text(m.socket_name);
  io(m.port);
  io.list(m.addresses, kMaxAddresses, kAddressSize, [&](auto& address) {
    io(address.family, address.bytes);
    io.check(address.family == 4 || address.family == 6);
  });
  io(m.segment_bytes, m.kernel);
  io.text(m.cores);
  io.text(m.device);
  io.check(m.rank.value >= 0 && m.rank.value < kMaxRanks && m.segment_bytes <= kMaxSegment);
}

template <class Io>
void ranks(Io& io, Of<std::vector<Rank>> auto& list) {
  io.list(list, kMaxRanks, 4, [&](auto& rank) { io(rank); });
}

template <class Io>
const char* fields(Io& io, Of<JoinMessage> auto& m) {
  member(io, m.member);
  io(m.ranks, m.timeout_ms);
  io.list(m.agreed, kMaxSettings, 8, [&](auto& setting) {
    io.line(setting.name);
    io.line(setting.value);
  });
  io.lines(m.from_rank_0);
  io.check(m.ranks >= 1 && m.ranks <= kMaxRanks && m.timeout_ms <= kMaxTimeout);
  return "join";
}

template <class Io>
const char* fields(Io& io, Of<TableMessage> auto& m) {
  io(m.comm_id);
  std::int32_t expected = 0;
  io.list(m.members, kMaxRanks, kMemberSize, [&](auto& item) {
    member(io, item);
    io.check(item.rank.value == expected++);
  });
  return "table";
}

template <class Io>
const char* fields(Io& io, Of<MissingMessage> auto& m) {
  ranks(io, m.ranks);
  return "missing-ranks";
}

template <class Io>
const char* fields(Io& io, Of<ReadyMessage> auto& m) {
  io(m.mapped);
  return "ready";
}

template <class Io>
const char* fields(Io& io, Of<GoMessage> auto& m) {
  ranks(io, m.apart);
  io.lines(m.from_rank_0);
  return "go";
}

template <class Io>
const char* fields(Io& io, Of<FailureMessage> auto& m) {
  io(m.code);
  io.line(m.text);
  return "failure";
}

template <class Io>
const char* fields(Io& io, Of<IntroduceMessage> auto& m) {
  io(m.process);
  return "introduction";
}

template <class Io>
const char* fields(Io& io, Of<SegmentMessage> auto& m) {
  io(m.bytes);
  return "segment";
}

template <class Io>
const char* fields(Io& io, Of<PlaceMessage> auto& m) {
  member(io, m.parent);
  return "place";
}

template <class Io>
const char* fields(Io& io, Of<MemberEventsMessage> auto& m) {
  io.list(m.items, MemberEventsMessage::kMaxItems, kMemberEventSize, [&](auto& item) {
    io(item.rank, item.kind, item.sequence);
    io.line(item.note, kMaxNote);
    io.check(item.sequence >> 62 == 0);
  });
  return "member event";
}

template <class Io>
const char* fields(Io& io, Of<FailureCause> auto& m) {
  io(m.code, m.from, m.culprit);
  io.line(m.text);
  return "cause";
}

template <class Io>
const char* fields(Io& io, Of<AskIdMessage> auto& m) {
  io(m.round, m.rank, m.public_key);
  return "id request";
}

template <class Io>
const char* fields(Io& io, Of<GiveIdMessage> auto& m) {
  io(m.round, m.given, m.public_key, m.id);
  return "id";
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

template <class Message>
std::vector<std::byte> encode(const Message& message) {
  FieldWriter out;
  fields(out, message);
  return out.data();
}

template <class Message>
Status decode(ByteView data, Message* message) {
  FieldReader in(data);
  const char* const name = fields(in, *message);
  return in.finish(name);
}

template std::vector<std::byte> encode(const JoinMessage&);
template Status decode(ByteView, JoinMessage*);
template std::vector<std::byte> encode(const TableMessage&);
template Status decode(ByteView, TableMessage*);
template std::vector<std::byte> encode(const MissingMessage&);
template Status decode(ByteView, MissingMessage*);
template std::vector<std::byte> encode(const ReadyMessage&);
template Status decode(ByteView, ReadyMessage*);
template std::vector<std::byte> encode(const GoMessage&);
template Status decode(ByteView, GoMessage*);
template std::vector<std::byte> encode(const FailureMessage&);
template Status decode(ByteView, FailureMessage*);
template std::vector<std::byte> encode(const IntroduceMessage&);
template Status decode(ByteView, IntroduceMessage*);
template std::vector<std::byte> encode(const SegmentMessage&);
template Status decode(ByteView, SegmentMessage*);
template std::vector<std::byte> encode(const PlaceMessage&);
template Status decode(ByteView, PlaceMessage*);
template std::vector<std::byte> encode(const MemberEventsMessage&);
template Status decode(ByteView, MemberEventsMessage*);
template std::vector<std::byte> encode(const FailureCause&);
template Status decode(ByteView, FailureCause*);
template std::vector<std::byte> encode(const AskIdMessage&);
template Status decode(ByteView, AskIdMessage*);
template std::vector<std::byte> encode(const GiveIdMessage&);
template Status decode(ByteView, GiveIdMessage*);

}  // namespace tutti

#include "comm/messages/messages.h"

#include <algorithm>
#include <span>

#include "comm/messages/board_message.h"
#include "net/message_fields.h"

namespace tutti {
namespace {

constexpr std::size_t kMaxSettings = 256;
constexpr std::size_t kEventRunSize = 25;  // the fewest bytes that one can have
constexpr std::size_t kMaxNote = 128;
constexpr std::uint64_t kMostOperations = std::uint64_t{1} << 62;

template <class Ranks>
std::string text_of_ranks(const Ranks& ranks) {
  constexpr std::size_t kShown = 16;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  std::size_t shown = 0;
  for (const Rank rank : ranks) {
    if (shown == kShown) break;
    if (shown > 0) text += shown + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(rank.value);
    ++shown;
  }
  if (ranks.size() > shown) text += fmt::format(" and {} more", ranks.size() - shown);
  return text;
}

template <class Io>
void ranks(Io& io, Of<std::vector<Rank>> auto& list) {
  io.list(list, kMaxRanks, 4, [&](auto& rank) { io(rank); });
}

}  // namespace

template <class Io>
const char* fields(Io& io, Of<JoinMessage> auto& m) {
  member_fields(io, m.member);
  io(m.ranks, m.timeout_ms);
  io.list(m.agreed, kMaxSettings, 8, [&](auto& setting) {
    io.line(setting.name);
    io.line(setting.value);
  });
  io.lines(m.costs_text);
  io.check(m.ranks >= 1 && m.ranks <= kMaxRanks && m.timeout_ms <= kMaxTimeout);
  return "join";
}

template <class Io>
const char* fields(Io& io, Of<TableMessage> auto& m) {
  io(m.comm_id);
  member_list_fields(io, m.members);
  return "table";
}

template <class Io>
const char* fields(Io& io, Of<MissingMessage> auto& m) {
  io.line(m.who);
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
  io.lines(m.costs_text);
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
const char* fields(Io& io, Of<TableSourceMessage> auto& m) {
  member_fields(io, m.parent);
  return "table-source";
}

const char* fields(FieldWriter& io, const MemberEventsMessage& m) {
  std::vector<std::span<const MemberEvent>> runs;
  std::span<const MemberEvent> left = std::span(m.items).first(std::min(m.items.size(), m.kMaxItems));
  for (; !left.empty(); left = left.subspan(runs.back().size())) {
    const auto end = std::find_if(left.begin(), left.end(), [&](const auto& item) { return !item.is_like(left[0]); });
    runs.push_back(left.first(static_cast<std::size_t>(end - left.begin())));
  }
  io.list(runs, MemberEventsMessage::kMaxItems, kEventRunSize, [&](std::span<const MemberEvent> run) {
    io(run[0].kind, run[0].sequence);
    io.line(run[0].note, kMaxNote);
    call_fields(io, run[0].calls, MemberEventsMessage::kMaxCalls);
    io.list(run, MemberEventsMessage::kMaxItems, 4, [&](const MemberEvent& item) { io(item.rank); });
  });
  return "member event";
}

const char* fields(FieldReader& io, MemberEventsMessage& m) {
  m.items.clear();
  std::vector<MemberEvent> runs;
  io.list(runs, MemberEventsMessage::kMaxItems, kEventRunSize, [&](MemberEvent& alike) {
    io(alike.kind, alike.sequence);
    io.line(alike.note, kMaxNote);
    io.check(alike.kind <= MemberEventKind::kFinished && alike.sequence < kMostOperations);
    call_fields(io, alike.calls, MemberEventsMessage::kMaxCalls);
    for (const Call& call : alike.calls) io.check(call.collective != Collective::kFinalize);  // it is no late rank then
    const bool is_last = !alike.calls.empty() && alike.calls.back().sequence == alike.sequence;
    io.check(alike.kind == MemberEventKind::kFinished ? is_last && alike.note.empty() : alike.calls.empty());
    std::vector<Rank> list;
    io.list(list, MemberEventsMessage::kMaxItems - m.items.size(), 4, [&](Rank& rank) { io(rank); });
    io.check(!list.empty());
    for (const Rank rank : list) {
      alike.rank = rank;
      m.items.push_back(alike);
    }
  });
  return "member event";
}

template <class Io>
const char* fields(Io& io, Of<FinishingMessage> auto& m) {
  io(m.sequence, m.all);
  io.check(m.sequence != 0 && m.sequence < kMostOperations);
  return "finishing";
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

std::string text_of(const std::vector<Rank>& ranks) { return text_of_ranks(ranks); }
std::string text_of(const std::set<Rank>& ranks) { return text_of_ranks(ranks); }

template <class Message>
std::vector<std::byte> encode(const Message& message) {
  return write_fields(message);
}

template <class Message>
Status decode(ByteView data, Message* message) {
  return read_fields(data, message);
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
template std::vector<std::byte> encode(const TableSourceMessage&);
template Status decode(ByteView, TableSourceMessage*);
template std::vector<std::byte> encode(const MemberEventsMessage&);
template Status decode(ByteView, MemberEventsMessage*);
template std::vector<std::byte> encode(const FinishingMessage&);
template Status decode(ByteView, FinishingMessage*);
template std::vector<std::byte> encode(const FailureCause&);
template Status decode(ByteView, FailureCause*);
template std::vector<std::byte> encode(const AskIdMessage&);
template Status decode(ByteView, AskIdMessage*);
template std::vector<std::byte> encode(const GiveIdMessage&);
template Status decode(ByteView, GiveIdMessage*);

}  // namespace tutti

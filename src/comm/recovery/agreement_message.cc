#include "comm/recovery/agreement_message.h"

#include "net/message_fields.h"

namespace tutti {
namespace {

constexpr std::size_t kMaxWords = kMaxRanks / 64;
/// Numbers grow by the number of processes with each attempt, so no honest one comes near.
constexpr std::uint64_t kMaxNumber = std::uint64_t{1} << 62;

/// A set has one writing, without zeros at its end.
template <class Io>
void numbers(Io& io, Of<NumberSet> auto& set) {
  io.list(set.words(), kMaxWords, 8, [&](auto& word) { io(word); });
  io.check(set.words().empty() || set.words().back() != 0);
}

/// FieldReader refuses a code of zero, which errors do not have.
template <class Io>
void outcome(Io& io, Of<Code> auto& code, Of<std::string> auto& text) {
  bool failed = code != Code::kOk;
  io(failed);
  if (!failed) return;
  io(code);
  io.line(text);
}

template <class Io>
void proposal(Io& io, Of<Proposal> auto& p) {
  numbers(io, p.members);
  io(p.id);
  outcome(io, p.code, p.text);
}

}  // namespace

template <class Io>
const char* fields(Io& io, Of<ShrinkReport> auto& m) {
  io(m.round, m.promised, m.number, m.stage);
  proposal(io, m.proposal);
  outcome(io, m.failure, m.text);
  numbers(io, m.called);
  numbers(io, m.awaited);
  numbers(io, m.excluded);
  numbers(io, m.out);
  io(m.overdue, m.asks);
  io.check(m.stage <= ShrinkStage::kCommitted && m.round > 0 && m.round < kMaxNumber && m.promised < kMaxNumber &&
           m.number <= m.promised && (m.failure != Code::kOk) == (m.stage == ShrinkStage::kFailed));
  return "shrink report";
}

template <class Io>
const char* fields(Io& io, Of<ShrinkOrder> auto& m) {
  io(m.round, m.number, m.stage);
  proposal(io, m.proposal);
  numbers(io, m.out);
  io(m.overdue);
  io.check(m.stage != ShrinkStage::kBuilt && m.stage != ShrinkStage::kFailed && m.stage <= ShrinkStage::kDecided &&
           m.round > 0 && m.round < kMaxNumber && m.number < kMaxNumber);
  return "shrink order";
}

std::vector<std::byte> encode(const ShrinkReport& message) { return write_fields(message); }
std::vector<std::byte> encode(const ShrinkOrder& message) { return write_fields(message); }
Status decode(ByteView data, ShrinkReport* message) { return read_fields(data, message); }
Status decode(ByteView data, ShrinkOrder* message) { return read_fields(data, message); }

}  // namespace tutti

// Every decoder of the rendezvous' messages. What is accepted must be written again as it was: nothing is ignored.
#include "comm/messages/messages.h"

#include "bytes.h"
#include "comm/messages/board_message.h"
#include "comm/messages/data_connection_message.h"
#include "comm/recovery/agreement_message.h"

namespace {

using namespace tutti;

/// A few values have more than one writing (any byte but 0 is true); writing it twice must settle it.
template <class Message>
void feed(ByteView data) {
  Message message;
  if (!decode(data, &message).ok()) return;
  const std::vector<std::byte> first = encode(message);
  Message again;
  fuzz::demand(decode(first, &again).ok(), "what was written can be read");
  fuzz::demand(encode(again) == first, "it is written the same way twice");
  fuzz::demand(first.size() == data.size(), "nothing is left out");
}

using Feed = void (*)(ByteView);
constexpr Feed kFeeds[] = {
    feed<JoinMessage>,        feed<TableMessage>,     feed<MissingMessage>,     feed<ReadyMessage>,
    feed<FailureMessage>,     feed<IntroduceMessage>, feed<SegmentMessage>,     feed<MemberEventsMessage>,
    feed<FailureCause>,       feed<AskIdMessage>,     feed<GiveIdMessage>,      feed<DataConnectionMessage>,
    feed<RequestDialMessage>, feed<BoardMessage>,     feed<TableSourceMessage>, feed<GoMessage>,
    feed<ShrinkReport>,       feed<ShrinkOrder>,      feed<FinishingMessage>,
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tutti::fuzz::Bytes input(data, size);
  const std::size_t which = input.u8() % std::size(kFeeds);
  kFeeds[which](input.rest());
  return 0;
}

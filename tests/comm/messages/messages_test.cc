// Covers comm/messages/*.cc, net/codec.cc, core/printable.cc.
// Every parser is fed what its writer makes, and then everything else.
#include "comm/messages/messages.h"

#include <gtest/gtest.h>

#include <random>

#include "comm/membership/member_table.h"
#include "comm/messages/board_message.h"
#include "comm/messages/data_connection_message.h"
#include "comm/messages/unique_id.h"

namespace tutti {
namespace {

Member sample_member(std::int32_t rank) {
  Member member;
  member.rank = Rank{rank};
  member.pid = 4711;
  member.process[3] = std::byte{7};
  member.host = std::make_shared<const MemberHost>(
      MemberHost{.name = "node", .id = "boot:1", .boot_id = 77, .addresses = {{}, {.family = 6, .bytes = {}}}});
  member.resources = std::make_shared<const MemberResources>(
      MemberResources{.cores = "0,2-3", .segment_bytes = 1 << 20, .device = std::string("\0a card", 7)});
  member.port = 500;
  return member;
}

JoinMessage sample_join() {
  JoinMessage join;
  join.member = sample_member(3);
  join.ranks = 4;
  join.timeout_ms = 1000;
  join.agreed = {{"TUTTI_ALGO", "ring"}, {"x", ""}};
  join.costs_text = "known by rank 0";
  return join;
}

TableMessage sample_table() {
  TableMessage table;
  table.comm_id = 99;
  for (int i = 0; i < 3; ++i) table.members.push_back(sample_member(i));
  return table;
}

TEST(Messages, MessagesComeBackAsTheyWere) {
  JoinMessage join;
  ASSERT_TRUE(decode(encode(sample_join()), &join).ok());
  EXPECT_EQ(*join.member.host, *sample_member(3).host);
  EXPECT_EQ(*join.member.resources, *sample_member(3).resources);
  EXPECT_EQ(join.member.rank, Rank{3});
  EXPECT_EQ(join.agreed.at(1).name, "x");
  EXPECT_EQ(join.timeout_ms, 1000u);
  EXPECT_EQ(join.costs_text, "known by rank 0");
  GoMessage go;
  ASSERT_TRUE(decode(encode(GoMessage{{Rank{3}}, "told to all"}), &go).ok());
  EXPECT_EQ(go.apart, std::vector<Rank>{Rank{3}});
  EXPECT_EQ(go.costs_text, "told to all");
  TableMessage table;
  ASSERT_TRUE(decode(encode(sample_table()), &table).ok());
  EXPECT_EQ(table.members.at(2).process, sample_member(2).process);
  EXPECT_EQ(table.members.at(2).port, 500);
  EXPECT_EQ(table.members.at(2).rank, Rank{2});
  FailureCause cause;
  ASSERT_TRUE(decode(encode(FailureCause{Code::kMismatch, Rank{1}, kNoRank, "why"}), &cause).ok());
  EXPECT_EQ(cause.code, Code::kMismatch);
  EXPECT_EQ(cause.culprit, kNoRank);
  EXPECT_EQ(cause.text, "why");
  MemberEventsMessage news;
  const MemberEvent death{Rank{1}, MemberEventKind::kDead, 3, "not reachable for 1 s"};
  ASSERT_TRUE(
      decode(encode(MemberEventsMessage{{{Rank{2}, MemberEventKind::kLeft, 1ull << 61, {}}, death}}), &news).ok());
  ASSERT_EQ(news.items.size(), 2u);
  EXPECT_EQ(news.items[0].sequence, 1ull << 61);
  EXPECT_EQ(news.items[1].kind, MemberEventKind::kDead);
  EXPECT_EQ(news.items[1].note, death.note);
  FinishingMessage finishing;
  ASSERT_TRUE(decode(encode(FinishingMessage{40, true}), &finishing).ok());
  EXPECT_EQ(finishing.sequence, 40u);
  EXPECT_TRUE(finishing.all);
  TableSourceMessage source;
  ASSERT_TRUE(decode(encode(TableSourceMessage{sample_member(5)}), &source).ok());
  EXPECT_EQ(source.parent.rank, Rank{5});
}

// Thousands of ranks leave after the same operation.
TEST(Messages, EventsThatAreAlikeTravelAsRanks) {
  MemberEventsMessage told;
  for (std::int32_t rank = 0; rank < 200; ++rank)
    told.items.push_back({Rank{rank}, rank < 100 ? MemberEventKind::kFinishing : MemberEventKind::kLeft, 7, {}});
  const std::vector<std::byte> bytes = encode(told);
  EXPECT_LT(bytes.size(), 200u * 4 + 100);
  MemberEventsMessage heard;
  ASSERT_TRUE(decode(bytes, &heard).ok());
  ASSERT_EQ(heard.items.size(), told.items.size());
  for (std::size_t i = 0; i < told.items.size(); ++i) {
    EXPECT_EQ(heard.items[i].rank, told.items[i].rank);
    EXPECT_TRUE(heard.items[i].is_like(told.items[i])) << i;
  }
}

/// A process closes a connection on which a larger control message comes.
TEST(Messages, TheLargestListOfEventsFitsAControlMessage) {
  MemberEventsMessage list;
  for (std::int32_t rank = 0; rank < 300; ++rank) {
    MemberEvent& event = list.items.emplace_back(MemberEvent{Rank{rank}, MemberEventKind::kFinished, 100, {}, {}});
    for (std::uint64_t sequence = 101 - MemberEventsMessage::kMaxCalls; sequence <= 100; ++sequence)
      event.calls.push_back({.sequence = sequence, .count = static_cast<std::uint64_t>(rank)});
  }
  const std::vector<std::byte> bytes = encode(list);
  EXPECT_LT(bytes.size(), 64u * 1024);
  MemberEventsMessage heard;
  ASSERT_TRUE(decode(bytes, &heard).ok());
  EXPECT_EQ(heard.items.size(), MemberEventsMessage::kMaxItems);
}

TEST(Messages, MoreEventsThanAMessageHasAreRefused) {
  const auto message_of = [](int runs, int ranks) {
    MessageWriter bytes;
    bytes.u32(static_cast<std::uint32_t>(runs));
    for (int run = 0; run < runs; ++run) {
      bytes.u8(static_cast<std::uint8_t>(MemberEventKind::kLeft));
      bytes.u64(static_cast<std::uint64_t>(run));
      bytes.text("");
      bytes.u32(0);  // calls
      bytes.u32(static_cast<std::uint32_t>(ranks));
      for (int rank = 0; rank < ranks; ++rank) bytes.u32(static_cast<std::uint32_t>(rank));
    }
    return bytes.data();
  };
  MemberEventsMessage heard;
  EXPECT_TRUE(decode(message_of(2, 128), &heard).ok());
  EXPECT_EQ(heard.items.size(), MemberEventsMessage::kMaxItems);
  EXPECT_FALSE(decode(message_of(2, 129), &heard).ok());
  EXPECT_FALSE(decode(message_of(1, 0), &heard).ok());
  EXPECT_TRUE(decode(message_of(0, 0), &heard).ok());
  MemberEventsMessage told;  // a writer cuts what is too much
  for (std::int32_t rank = 0; rank < 300; ++rank)
    told.items.push_back({Rank{rank}, MemberEventKind::kLeft, static_cast<std::uint64_t>(rank % 2), {}});
  EXPECT_TRUE(decode(encode(told), &heard).ok());
  EXPECT_EQ(heard.items.size(), MemberEventsMessage::kMaxItems);
}

// Only the first bytes of a note travel.
TEST(Messages, EventsWhoseNotesDifferTooLateAreReadAlike) {
  const std::string note(200, 'x');
  MemberEventsMessage heard;
  ASSERT_TRUE(decode(encode(MemberEventsMessage{{{Rank{1}, MemberEventKind::kDead, 3, note + "y"},
                                                 {Rank{2}, MemberEventKind::kDead, 3, note + "z"}}}),
                     &heard)
                  .ok());
  ASSERT_EQ(heard.items.size(), 2u);
  EXPECT_TRUE(heard.items[0].is_like(heard.items[1]));
}

TEST(Messages, OfManyWhoLeftAMessageHasTheRanks) {
  TableMessage table;
  for (std::int32_t rank = 0; rank < 100; ++rank) table.members.push_back(sample_member(rank));
  MemberTable members(std::move(table));
  for (Rank rank{0}; rank.value < 100; ++rank) {
    EXPECT_TRUE(members.set_finishing(rank, 8));
    EXPECT_TRUE(members.end_life(rank, Liveness::kLeft, 7));
  }
  const std::vector<MemberEvent> events = members.life_events();
  EXPECT_EQ(events.size(), 200u);
  EXPECT_LT(encode(MemberEventsMessage{events}).size(), 200u * 4 + 100);
}

TEST(Messages, OfALivingRankTheNewestIsKept) {
  TableMessage table;
  for (std::int32_t rank = 0; rank < 2; ++rank) table.members.push_back(sample_member(rank));
  MemberTable members(std::move(table));
  EXPECT_TRUE(members.set_finished(Rank{0}, 7));
  EXPECT_FALSE(members.set_finished(Rank{0}, 7));
  EXPECT_FALSE(members.set_finishing(Rank{0}, 7)) << "it has finished more than it had when it came to that";
  EXPECT_EQ(members.life_events().at(0).kind, MemberEventKind::kFinished);
  EXPECT_EQ(members.life_events().at(0).sequence, 7u);
  EXPECT_TRUE(members.set_finishing(Rank{0}, 8));
  EXPECT_FALSE(members.set_finished(Rank{0}, 7));
  ASSERT_EQ(members.life_events().size(), 1u);
  EXPECT_EQ(members.life_events()[0].kind, MemberEventKind::kFinishing);
  EXPECT_EQ(members.life_events()[0].sequence, 8u);
}

// A process that connects later hears the same as those that heard the goodbye.
TEST(Messages, OfAGoodbyeItIsKeptWhetherAllHadFinished) {
  TableMessage table;
  for (std::int32_t rank = 0; rank < 4; ++rank) table.members.push_back(sample_member(rank));
  MemberTable members(std::move(table));
  members.set_finished_by_all(7);
  members.set_finished_by_all(5);
  EXPECT_EQ(members.finished_by_all(), 7u);
  EXPECT_TRUE(members.end_life(Rank{0}, Liveness::kLeft, 7));
  EXPECT_TRUE(members.end_life(Rank{1}, Liveness::kLeft, 8));
  EXPECT_TRUE(members.end_life(Rank{2}, Liveness::kLeft, 0));
  EXPECT_TRUE(members.end_life(Rank{3}, Liveness::kDead, 7));
  std::vector<MemberEventKind> kinds;
  for (const MemberEvent& event : members.life_events()) kinds.push_back(event.kind);
  EXPECT_EQ(kinds, (std::vector{MemberEventKind::kFinalized, MemberEventKind::kLeft, MemberEventKind::kLeft,
                                MemberEventKind::kDead}));
  MemberEventsMessage heard;
  ASSERT_TRUE(decode(encode(MemberEventsMessage{members.life_events()}), &heard).ok());
  EXPECT_EQ(heard.items.at(0).kind, MemberEventKind::kFinalized);
  EXPECT_EQ(heard.items.at(0).sequence, 7u);
}

// A line that is forged, or that speaks to the terminal, would be the reader's own in its log.
TEST(Messages, TextsOfOthersHaveNoControlCharacters) {
  FailureCause cause;
  ASSERT_TRUE(
      decode(encode(FailureCause{Code::kMismatch, Rank{1}, kNoRank, "a\nb\x1b[2J\x7f\xc2\x9b \xc3\xbc"}), &cause).ok());
  EXPECT_EQ(cause.text, "a?b?[2J??? \xc3\xbc");
  FailureMessage failure;
  ASSERT_TRUE(decode(encode(FailureMessage{Code::kMismatch, "x\r\ny"}), &failure).ok());
  EXPECT_EQ(failure.text, "x??y");
  Member member = sample_member(5);
  member.host = std::make_shared<const MemberHost>(MemberHost{.name = "host\n12:00:00.000 tutti error rank 0: forged"});
  TableSourceMessage source;
  ASSERT_TRUE(decode(encode(TableSourceMessage{member}), &source).ok());
  EXPECT_EQ(source.parent.host->name.find('\n'), std::string::npos);
}

template <class Message>
void expect_only_whole_messages_parse(const std::vector<std::byte>& good) {
  Message message;
  ASSERT_TRUE(decode(good, &message).ok());
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(decode(ByteView(good).first(size), &message).ok()) << size << " of " << good.size() << " bytes";
  std::vector<std::byte> longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode(longer, &message).ok());
}

TEST(Messages, OfManyRanksATextNamesTheFirst) {
  std::set<Rank> ranks;
  EXPECT_EQ(text_of(std::set<Rank>{Rank{2}}), "rank 2");
  EXPECT_EQ(text_of(std::set<Rank>{Rank{2}, Rank{4}, Rank{3}}), "ranks 2, 3 and 4");
  for (int rank = 0; rank < 1000; ++rank) ranks.insert(Rank{rank});
  EXPECT_EQ(text_of(ranks), "ranks 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 and 984 more");
  EXPECT_EQ(text_of(std::vector<Rank>(ranks.begin(), ranks.end())), text_of(ranks));
}

TEST(Messages, WhatIsCutShortOrTooLongIsRefused) {
  expect_only_whole_messages_parse<JoinMessage>(encode(sample_join()));
  expect_only_whole_messages_parse<TableMessage>(encode(sample_table()));
  expect_only_whole_messages_parse<MissingMessage>(encode(MissingMessage{"ranks 1 and 2"}));
  expect_only_whole_messages_parse<ReadyMessage>(encode(ReadyMessage{true}));
  expect_only_whole_messages_parse<GoMessage>(encode(GoMessage{{Rank{3}}, "costs"}));
  expect_only_whole_messages_parse<DataConnectionMessage>(encode(DataConnectionMessage{{}, Rank{3}, Rank{1}, Lane{2}}));
  expect_only_whole_messages_parse<RequestDialMessage>(encode(RequestDialMessage{Rank{1}, Rank{3}, Lane{2}, 1}));
  expect_only_whole_messages_parse<BoardMessage>(encode(BoardMessage{Rank{1}, {1, CallState::kDone, Rank{0}}, {}}));
  expect_only_whole_messages_parse<FailureMessage>(encode(FailureMessage{Code::kTimeout, "late"}));
  expect_only_whole_messages_parse<IntroduceMessage>(encode(IntroduceMessage{}));
  expect_only_whole_messages_parse<SegmentMessage>(encode(SegmentMessage{4096}));
  expect_only_whole_messages_parse<MemberEventsMessage>(
      encode(MemberEventsMessage{{{Rank{1}, MemberEventKind::kDead, 7, "x"}}}));
  expect_only_whole_messages_parse<FinishingMessage>(encode(FinishingMessage{40, false}));
  expect_only_whole_messages_parse<TableSourceMessage>(encode(TableSourceMessage{sample_member(1)}));
  expect_only_whole_messages_parse<FailureCause>(encode(FailureCause{Code::kTimeout, Rank{0}, Rank{1}, "x"}));
  expect_only_whole_messages_parse<AskIdMessage>(encode(AskIdMessage{1, Rank{1}}));
  expect_only_whole_messages_parse<GiveIdMessage>(encode(GiveIdMessage{}));
}

TEST(Messages, ValuesOutOfRangeAreRefused) {
  JoinMessage join = sample_join();
  join.ranks = 0;
  EXPECT_FALSE(decode(encode(join), &join).ok());
  join = sample_join();
  join.ranks = kMaxRanks;
  EXPECT_TRUE(decode(encode(join), &join).ok());
  join.ranks = kMaxRanks + 1;
  EXPECT_FALSE(decode(encode(join), &join).ok());
  join = sample_join();
  join.timeout_ms = kMaxTimeout;
  EXPECT_TRUE(decode(encode(join), &join).ok());
  for (const std::uint64_t timeout : {kMaxTimeout + 1, std::uint64_t{1} << 44, ~std::uint64_t{0}}) {
    join = sample_join();
    join.timeout_ms = timeout;  // in nanoseconds it is more than a clock can hold
    EXPECT_FALSE(decode(encode(join), &join).ok()) << timeout;
  }
  MemberEventsMessage news{{{Rank{1}, static_cast<MemberEventKind>(5), 0, {}}}};
  EXPECT_FALSE(decode(encode(news), &news).ok());
  const Call six{.sequence = 6}, seven{.sequence = 7}, impossible{.sequence = 7, .collective = Collective{60}};
  const auto finished = [](std::uint64_t sequence, std::vector<Call> calls, MemberEventKind kind) {
    MemberEventsMessage message{{{Rank{1}, kind, sequence, {}, std::move(calls)}}};
    return decode(encode(message), &message).ok();
  };
  EXPECT_TRUE(finished(7, {six, seven}, MemberEventKind::kFinished));
  EXPECT_FALSE(finished(7, {}, MemberEventKind::kFinished)) << "what was called is not said";
  EXPECT_FALSE(finished(8, {seven}, MemberEventKind::kFinished)) << "nor this";
  EXPECT_FALSE(finished(7, {seven, six}, MemberEventKind::kFinished));
  EXPECT_FALSE(finished(7, {impossible}, MemberEventKind::kFinished));
  EXPECT_FALSE(finished(7, std::vector<Call>(9, seven), MemberEventKind::kFinished));
  EXPECT_FALSE(finished(7, {seven}, MemberEventKind::kFinishing));
  EXPECT_FALSE(finished(7, {{.sequence = 7, .collective = Collective::kFinalize}}, MemberEventKind::kFinished));
  MemberEventsMessage noted{{{Rank{1}, MemberEventKind::kFinished, 7, "a note", {seven}}}};
  EXPECT_FALSE(decode(encode(noted), &noted).ok());
  for (const std::uint64_t sequence : {std::uint64_t{0}, std::uint64_t{1} << 62}) {
    FinishingMessage finishing{sequence, true};
    EXPECT_FALSE(decode(encode(finishing), &finishing).ok()) << sequence;
  }
  FailureMessage failure{Code::kOk, "fine"};
  EXPECT_FALSE(decode(encode(failure), &failure).ok());
  MessageWriter huge;  // a count that promises more than is there must not be allocated
  huge.u64(1);
  huge.u32(0xffffffff);
  TableMessage table;
  EXPECT_FALSE(decode(huge.data(), &table).ok());
}

/// Feeds a byte string to every parser; what it says does not matter, only that it reads nothing it should not.
int parse_as_everything(ByteView data) {
  int accepted = 0;
  const auto feed = [&](auto message) { accepted += decode(data, &message).ok() ? 1 : 0; };
  feed(JoinMessage{});
  feed(TableMessage{});
  feed(MissingMessage{});
  feed(ReadyMessage{});
  feed(GoMessage{});
  feed(DataConnectionMessage{});
  feed(RequestDialMessage{});
  feed(BoardMessage{});
  feed(FailureMessage{});
  feed(IntroduceMessage{});
  feed(SegmentMessage{});
  feed(MemberEventsMessage{});
  feed(FinishingMessage{});
  feed(TableSourceMessage{});
  feed(FailureCause{});
  feed(AskIdMessage{});
  feed(GiveIdMessage{});
  return accepted;
}

TEST(Messages, RandomBytesDoNoHarm) {
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> noise(random() % 300);
    for (std::byte& b : noise) b = static_cast<std::byte>(random());
    parse_as_everything(noise);
  }
  SUCCEED();
}

TEST(Messages, DamagedMessagesDoNoHarm) {
  std::mt19937 random(2);
  const std::vector<std::vector<std::byte>> seeds = {encode(sample_join()), encode(sample_table()),
                                                     encode(FailureCause{Code::kTimeout, Rank{0}, Rank{1}, "text"}),
                                                     encode(MissingMessage{"ranks 1 and 2"})};
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> damaged = seeds[random() % seeds.size()];
    for (unsigned hits = 1 + random() % 4; hits > 0; --hits)
      damaged[random() % damaged.size()] = static_cast<std::byte>(random());
    if (random() % 4 == 0) damaged.resize(random() % (damaged.size() + 20));
    accepted += parse_as_everything(damaged);
  }
  EXPECT_GT(accepted, 0);  // a changed letter in a text is still a message
}

TEST(UniqueIdBytes, ComeBackAsTheyWere) {
  UniqueId id;
  ASSERT_TRUE(random_bytes(id.secret).ok());
  ASSERT_TRUE(random_bytes(id.nonce).ok());
  id.port = 54321;
  id.addresses.resize(4);
  id.addresses[2].family = 6;
  id.addresses[2].bytes[15] = std::byte{1};
  UniqueId back;
  ASSERT_TRUE(UniqueId::decode(id.encode(), &back).ok());
  EXPECT_EQ(back.secret, id.secret);
  EXPECT_EQ(back.nonce, id.nonce);
  EXPECT_EQ(back.port, id.port);
  EXPECT_EQ(back.addresses, id.addresses);
}

TEST(UniqueIdBytes, NoiseIsRefusedOrHarmless) {
  std::mt19937 random(3);
  UniqueId good;
  good.addresses.resize(1);
  for (int round = 0; round < 20000; ++round) {
    IdBytes bytes = good.encode();
    const std::size_t from = round % 2 == 0 ? 0 : 56;
    for (std::size_t i = from; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(random());
    UniqueId id;
    const Status status = UniqueId::decode(bytes, &id);
    EXPECT_LE(id.addresses.size(), UniqueId::kMaxAddresses);
    EXPECT_TRUE(from != 0 || status.code() == Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tutti

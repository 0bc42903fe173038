// Covers comm/recovery/agreement_message.cc: what is written is read, and nothing else is.
#include "comm/recovery/agreement_message.h"

#include <gtest/gtest.h>

#include <functional>

#include "net/connection.h"
#include "support/seed.h"

namespace tutti {
namespace {

NumberSet set_of(const std::vector<std::size_t>& numbers) {
  NumberSet set;
  for (const std::size_t number : numbers) set.add(number);
  return set;
}

Proposal sample_proposal() {
  Proposal proposal;
  proposal.members = set_of({0, 2, 64, 130});
  proposal.id.fill(std::byte{7});
  proposal.code = Code::kTimeout;
  proposal.text = "too late";
  return proposal;
}

ShrinkReport sample_report() {
  ShrinkReport report;
  report.round = 3;
  report.promised = 9;
  report.number = 8;
  report.stage = ShrinkStage::kFailed;
  report.proposal = sample_proposal();
  report.failure = Code::kSystemError;
  report.text = "no join";
  report.called = set_of({1});
  report.awaited = set_of({2, 70});
  report.excluded = set_of({3});
  report.out = set_of({4, 5});
  report.overdue = true;
  report.asks = true;
  return report;
}

ShrinkOrder sample_order() {
  ShrinkOrder order;
  order.round = 2;
  order.number = 5;
  order.stage = ShrinkStage::kDecided;
  order.proposal = sample_proposal();
  order.out = set_of({1, 64});
  order.overdue = true;
  return order;
}

template <class Message>
void expect_round_trip(const Message& message) {
  Message read;
  ASSERT_TRUE(decode(encode(message), &read).ok());
  EXPECT_EQ(read, message);
}

template <class Message>
bool is_read(const Message& sample, const std::function<void(Message&)>& change) {
  Message message = sample;
  change(message);
  Message read;
  const Status status = decode(encode(message), &read);
  EXPECT_TRUE(status.ok() || status.code() == Code::kRemoteError);
  return status.ok();
}

bool is_read_report(const std::function<void(ShrinkReport&)>& change) { return is_read(sample_report(), change); }
bool is_read_order(const std::function<void(ShrinkOrder&)>& change) { return is_read(sample_order(), change); }

TEST(ShrinkMessages, AreReadAsWritten) {
  expect_round_trip(ShrinkReport{});
  expect_round_trip(ShrinkOrder{});
  expect_round_trip(sample_report());
  expect_round_trip(sample_order());
  for (int stage = 0; stage <= 5; ++stage) {
    ShrinkReport report;
    report.stage = static_cast<ShrinkStage>(stage);
    if (report.stage == ShrinkStage::kFailed) report.failure = Code::kAborted;
    if (report.stage != ShrinkStage::kDecided) expect_round_trip(report);
    ShrinkOrder order;
    order.stage = static_cast<ShrinkStage>(stage);
    if (order.stage != ShrinkStage::kBuilt && order.stage != ShrinkStage::kFailed) expect_round_trip(order);
  }
}

TEST(ShrinkMessages, RefuseValuesOutOfRangeInReports) {
  EXPECT_TRUE(is_read_report([](auto&) {}));
  EXPECT_FALSE(is_read_report([](auto& report) { report.round = 0; }));
  EXPECT_FALSE(is_read_report([](auto& report) { report.round = UINT64_MAX; }));
  EXPECT_FALSE(is_read_report([](auto& report) { report.promised = UINT64_MAX; }));
  EXPECT_TRUE(is_read_report([](auto& report) { report.number = report.promised; }));
  EXPECT_FALSE(is_read_report([](auto& report) { report.number = report.promised + 1; }));
  EXPECT_FALSE(is_read_report([](auto& report) { report.stage = ShrinkStage::kBuilt; })) << "with a failure";
  EXPECT_FALSE(is_read_report([](auto& report) { report.failure = Code::kOk; })) << "a failure without a reason";
  EXPECT_FALSE(is_read_report([](auto& report) { report.failure = static_cast<Code>(12); }));
  EXPECT_FALSE(is_read_report([](auto& report) { report.proposal.code = static_cast<Code>(12); }));
  for (const int stage : {5, 6, 255}) {
    EXPECT_FALSE(is_read_report([stage](auto& report) {
      report.stage = static_cast<ShrinkStage>(stage);
      report.failure = Code::kOk;
    })) << stage;
  }
}

TEST(ShrinkMessages, RefuseValuesOutOfRangeInOrders) {
  EXPECT_TRUE(is_read_order([](auto&) {}));
  EXPECT_FALSE(is_read_order([](auto& order) { order.round = 0; }));
  EXPECT_FALSE(is_read_order([](auto& order) { order.round = UINT64_MAX; }));
  EXPECT_FALSE(is_read_order([](auto& order) { order.number = UINT64_MAX; }));
  EXPECT_FALSE(is_read_order([](auto& order) { order.proposal.code = static_cast<Code>(12); }));
  for (const int stage : {2, 3, 6, 255})
    EXPECT_FALSE(is_read_order([stage](auto& order) { order.stage = static_cast<ShrinkStage>(stage); })) << stage;
}

/// The number of words of a set stands before them. One more than there may be is refused.
TEST(ShrinkMessages, LimitTheWordsOfASet) {
  ShrinkOrder order;
  order.out = set_of({kMaxRanks - 1});
  expect_round_trip(order);
  std::vector<std::byte> data = encode(order);
  const auto at = data.size() - 1 - kMaxRanks / 8 - 4;  // overdue stands after the words
  EXPECT_EQ(static_cast<int>(data[at]) + 256 * static_cast<int>(data[at + 1]), kMaxRanks / 64);
  data[at] = static_cast<std::byte>(static_cast<int>(data[at]) + 1);
  data.insert(data.end() - 1, 8, std::byte{1});
  ShrinkOrder read;
  EXPECT_FALSE(decode(data, &read).ok());
}

/// A process closes a connection on which a larger message comes.
TEST(ShrinkMessages, FitAConnectionWithTheMostRanks) {
  ShrinkReport report = sample_report();
  for (NumberSet* set : {&report.proposal.members, &report.called, &report.awaited, &report.excluded, &report.out})
    set->add(Rank{kMaxRanks - 1});
  report.proposal.code = Code::kTimeout;
  report.text = report.proposal.text = std::string(MessageWriter::kMaxText, 'x');
  expect_round_trip(report);
  EXPECT_LT(encode(report).size(), Connection::kDefaultLimit);
}

/// Else equal sets could differ.
TEST(ShrinkMessages, RefuseASetThatEndsWithAnEmptyWord) {
  EXPECT_FALSE(is_read_order([](auto& order) { order.out.words() = {2, 0}; }));
  EXPECT_FALSE(is_read_order([](auto& order) { order.proposal.members.words() = {0}; }));
  EXPECT_FALSE(is_read_report([](auto& report) { report.called.words() = {2, 0}; }));
  EXPECT_TRUE(is_read_report([](auto& report) { report.called.words() = {0, 2}; }));
}

template <class Message>
void expect_only_whole_parse(const Message& message) {
  const std::vector<std::byte> good = encode(message);
  Message read;
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(decode(ByteView(good).first(size), &read).ok()) << size << " of " << good.size() << " bytes";
  std::vector<std::byte> longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode(longer, &read).ok());
}

TEST(ShrinkMessages, ParseOnlyWhole) {
  expect_only_whole_parse(sample_report());
  expect_only_whole_parse(sample_order());
  expect_only_whole_parse(ShrinkReport{});
  expect_only_whole_parse(ShrinkOrder{});
}

/// Whatever is read is in range and can be written and read again.
template <class Message>
void read_disturbed(const Message& sample, std::mt19937* random) {
  std::vector<std::byte> data = encode(sample);
  const auto number = [random](std::size_t below) { return (*random)() % below; };
  if (number(4) == 0) data.resize(number(2 * data.size()));
  for (std::size_t i = number(8); i > 0 && !data.empty(); --i)
    data[number(data.size())] = static_cast<std::byte>(number(256));
  Message read;
  if (const Status status = decode(data, &read); !status.ok()) {
    EXPECT_EQ(status.code(), Code::kRemoteError);
    return;
  }
  expect_round_trip(read);
}

TEST(ShrinkMessages, SurviveRandomBytes) {
  SCOPED_TRACE(test::seed_text());
  std::mt19937 random(test::test_seed());
  for (int i = 0; i < 20000; ++i) {
    read_disturbed(sample_report(), &random);
    read_disturbed(sample_order(), &random);
  }
}

}  // namespace
}  // namespace tutti

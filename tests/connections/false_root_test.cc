// Who serves an id may be hostile: if nothing is secret it is whoever came to the port first. It can keep ranks from
// joining; it cannot make them touch memory that is not theirs.
// Covers comm/join/join_task.cc, comm/membership/membership_linker.cc.
#include "connections/false_root.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <utility>

#include "comm/join/join.h"
#include "comm/membership/hub.h"
#include "support/connections.h"
#include "support/joining_processes.h"

namespace tutti {
namespace {

/// What becomes of rank 0 of two whose root answers its join by what `answers` makes of its member.
template <class Answers>
Status join_by_false_root(const Answers& answers) {
  test::FalseRoot root;
  std::thread serving([&] {
    ASSERT_TRUE(root.accept());
    MessageType type{};
    JoinMessage join;
    ASSERT_TRUE(decode(root.hear(&type), &join).ok());
    ASSERT_EQ(type, MessageType::kJoin);
    answers(root, join.member);
    while (!root.hear(&type).empty()) continue;  // until the rank has had enough
  });
  JoinResult joined;
  const Status status = join(test::request_for(0, 2, root.id()), &joined);
  serving.join();
  EXPECT_TRUE(wait_for_no_hub(test::kPatience));
  return status;
}

/// A table of so many ranks: the first is the honest one, the others say that they are the same process.
std::vector<std::byte> table_of(int ranks, std::uint64_t comm_id, const Member& first) {
  TableMessage table;
  table.comm_id = comm_id;
  for (int rank = 0; rank < ranks; ++rank) {
    table.members.push_back(first);
    table.members.back().rank = Rank{rank};
  }
  return encode(table);
}

TEST(FalseRoot, ATableOfAnotherSizeIsRefused) {
  for (const int ranks : {1, 3, 100}) {
    const Status status = join_by_false_root([ranks](test::FalseRoot& root, const Member& member) {
      root.say(MessageType::kTable, table_of(ranks, root.comm_id(), member));
      root.say(MessageType::kGo, encode(GoMessage{}));
    });
    EXPECT_EQ(status.code(), Code::kRemoteError) << ranks;
    EXPECT_NE(status.text().find(fmt::format("{} ranks", ranks)), std::string::npos) << status.text();
  }
}

// Ranks of one process share what belongs to a communicator by its number: two of them with one number would share it.
TEST(FalseRoot, ATableOfAnotherCommunicatorIsRefused) {
  const Status status = join_by_false_root([](test::FalseRoot& root, const Member& member) {
    root.say(MessageType::kTable, table_of(2, root.comm_id() + 1, member));
  });
  EXPECT_EQ(status.code(), Code::kRemoteError);
  EXPECT_NE(status.text().find("another communicator"), std::string::npos) << status.text();
}

TEST(FalseRoot, AGoBeforeTheRankIsReadyIsRefused) {
  const Status status = join_by_false_root([](test::FalseRoot& root, const Member& member) {
    Member other = member;
    other.process[0] ^= std::byte{1};  // a process that nobody can connect to
    other.rank = Rank{1};
    TableMessage table;
    table.comm_id = root.comm_id();
    table.members = {member, other};
    root.say(MessageType::kTable, encode(table));
    root.say(MessageType::kGo, encode(GoMessage{}));
  });
  EXPECT_EQ(status.code(), Code::kRemoteError);
  EXPECT_NE(status.text().find("out of turn"), std::string::npos) << status.text();
}

// A root with too many connections drops ranks that it has not heard yet.
TEST(FalseRoot, ARankThatWasDroppedBeforeItWasHeardDialsAgain) {
  test::FalseRoot root;
  std::thread serving([&] {
    for (int dropped = 0; dropped < 3; ++dropped) {
      ASSERT_TRUE(root.accept());
      root.hang_up();
    }
    ASSERT_TRUE(root.accept());
    root.say(MessageType::kFailure, encode(FailureMessage{Code::kMismatch, "heard"}));
    MessageType type{};
    while (!root.hear(&type).empty()) continue;
  });
  JoinResult joined;
  const Status status = join(test::request_for(0, 2, root.id()), &joined);
  serving.join();
  EXPECT_EQ(status.code(), Code::kMismatch) << status.text();
  EXPECT_EQ(status.text(), "heard");
}

TEST(FalseRoot, OneThatEndsDuringTheJoinEndsIt) {
  test::FalseRoot root;
  std::thread serving([&] {
    ASSERT_TRUE(root.accept());
    root.say(MessageType::kMissing, encode(MissingMessage{"rank 1"}));
    root.hang_up();
  });
  JoinResult joined;
  const Status status = join(test::request_for(0, 2, root.id()), &joined);
  serving.join();
  EXPECT_EQ(status.code(), Code::kRemoteError) << status.text();
  EXPECT_NE(status.text().find("ended during the join"), std::string::npos) << status.text();
}

/// Serves two ranks of one process until both are ready. The table comes to one of them; the other one, whose
/// connection `unheard` becomes, has it from its process.
void serve_until_ready(test::FalseRoot& root, test::Spoken* heard, test::Spoken* unheard) {
  TableMessage table;
  table.comm_id = root.comm_id();
  table.members.resize(2);
  std::array<test::Spoken, 2> connections;  // by rank
  MessageType type{};
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(root.accept());
    JoinMessage join;
    ASSERT_TRUE(decode(root.hear(&type), &join).ok());
    const auto rank = static_cast<std::size_t>(join.member.rank.value);
    ASSERT_LT(rank, 2u);
    table.members[rank] = join.member;
    connections[rank] = std::move(static_cast<test::Spoken&>(root));
  }
  connections[0].say(MessageType::kTable, encode(table));
  for (const test::Spoken& one : connections) {
    ASSERT_FALSE(one.hear(&type).empty());
    ASSERT_EQ(type, MessageType::kReady);
  }
  *heard = std::move(connections[0]);
  *unheard = std::move(connections[1]);
}

// A root may lack the memory to tell a rank that all are ready. The rank's join is over then: all others have begun.
TEST(FalseRoot, ARankThatWasReadyWhenItWasDroppedDoesNotDialAgain) {
  test::FalseRoot root;
  std::thread serving([&] {
    test::Spoken heard, unheard;
    ASSERT_NO_FATAL_FAILURE(serve_until_ready(root, &heard, &unheard));
    root.stop_listening();
    heard.say(MessageType::kGo, encode(GoMessage{}));
    unheard.hang_up();
    MessageType type{};
    while (!heard.hear(&type).empty()) continue;
  });
  JoinResult first, second;
  Status of_second;
  std::thread other([&] { of_second = join(test::request_for(1, 2, root.id()), &second); });
  const Status of_first = join(test::request_for(0, 2, root.id()), &first);
  other.join();
  EXPECT_TRUE(of_first.ok()) << of_first.text();
  EXPECT_EQ(of_second.code(), Code::kRemoteError);
  EXPECT_NE(of_second.text().find("ended during the join"), std::string::npos) << of_second.text();
  const auto is_gone = [&] { return first.membership->liveness(Rank{1}) != Liveness::kAlive; };
  EXPECT_TRUE(of_first.ok() && test::comes_true(is_gone)) << "the first rank did not hear that the second is gone";
  first = JoinResult();
  serving.join();
}

}  // namespace
}  // namespace tutti

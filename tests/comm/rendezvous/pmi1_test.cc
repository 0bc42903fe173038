// Covers comm/rendezvous/pmi1.cc.
#include "comm/rendezvous/pmi1.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <thread>

#include "comm/rendezvous/join_url.h"
#include "comm/rendezvous/pmi_server.h"
#include "support/joining_processes.h"

namespace tutti {
namespace {

using test::expect_all_ok;
using test::JoiningProcesses;
using test::PmiServer;
using test::SharedPage;

constexpr double kPatience = test::kFarSeconds;

void clear_launchers() {
  for (const char* name : {"RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMIX_NAMESPACE", "PMIX_RANK", "PMI_PORT",
                           "PMI_ID", "SLURM_STEP_ID", "SLURM_PROCID"})
    ::unsetenv(name);
}

void clear_pmi() {
  for (const char* name : {"PMI_FD", "PMI_RANK", "PMI_SIZE"}) ::unsetenv(name);
}

void set_pmi(int descriptor, int rank, int ranks) {
  clear_launchers();
  ::setenv("PMI_FD", std::to_string(descriptor).c_str(), 1);
  ::setenv("PMI_RANK", std::to_string(rank).c_str(), 1);
  ::setenv("PMI_SIZE", std::to_string(ranks).c_str(), 1);
}

/// A client whose server has said `answers` in advance, and hangs up after them if told so.
class Script {
 public:
  explicit Script(const std::string& answers, bool hang_up = false) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    server_ = Descriptor(ends[0]);
    client_ = std::make_unique<PmiClient>("MPICH", Descriptor(ends[1]), false);
    const int big = 1 << 20;
    ::setsockopt(server_.get(), SOL_SOCKET, SO_SNDBUF, &big, sizeof big);
    EXPECT_EQ(::send(server_.get(), answers.data(), answers.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(answers.size()));
    if (hang_up) ::shutdown(server_.get(), SHUT_WR);
  }
  PmiClient& client() { return *client_; }

 private:
  Descriptor server_;
  std::unique_ptr<PmiClient> client_;
};

const std::string kStart =
    "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\ncmd=maxes kvsname_max=256 keylen_max=64 "
    "vallen_max=1024\ncmd=my_kvsname kvsname=k\n";

TEST(Pmi1, MessagesAreTakenApart) {
  std::string_view value;
  EXPECT_TRUE(pmi_value("cmd=get_result rc=0 value=ab=c msg=", "value", &value));
  EXPECT_EQ(value, "ab=c");
  EXPECT_TRUE(pmi_value("cmd=get_result rc=0 value=ab msg=", "msg", &value));
  EXPECT_EQ(value, "");
  EXPECT_FALSE(pmi_value("cmd=x xrc=0 rc", "rc", &value));
  EXPECT_FALSE(pmi_value("", "rc", &value));
  EXPECT_FALSE(pmi_value("   ", "", &value));
}

TEST(Pmi1, JoinsThroughPmiFdMeetByRound) {
  constexpr int kRanks = 3, kRounds = 3;
  PmiServer server(kRanks);
  JoiningProcesses processes;
  processes.start_all(kRanks, [&](int rank, SharedPage&) {
    set_pmi(server.descriptor(rank), rank, kRanks);
    for (int other = 0; other < kRanks; ++other)
      if (other != rank) ::close(server.descriptor(other));
    for (int round = 0; round < kRounds; ++round) {
      JoinResult joined;
      TUTTI_TRY(join_url("env://", test::request_for(-1, -1, IdBytes{}), &joined));
      if (joined.membership->rank() != Rank{rank}) return fail(Code::kInternalError, "another rank");
      joined.membership->say_goodbye(0);
    }
    return Status();
  });
  server.serve();
  processes.wait();
  expect_all_ok(processes.page(), kRanks);
  EXPECT_EQ(server.barriers(), kRounds);
  EXPECT_EQ(server.goodbyes(), kRanks);  // at the processes' ends, once
}

// A rank that never comes leaves the others in the barrier: they say so at their deadline.
TEST(Pmi1, ARankThatDoesNotComeIsAnErrorByTheDeadline) {
  PmiServer server(2);
  JoiningProcesses processes;
  processes.start(0, [&](int, SharedPage&) {
    set_pmi(server.descriptor(0), 0, 2);
    JoinResult joined;
    const Status status = join_url("env://", test::request_for(-1, -1, IdBytes{}, 3), &joined);
    const bool right = status.code() == Code::kTimeout && status.text().find("MPICH") != std::string::npos &&
                       status.text().find("2 ranks") != std::string::npos;
    JoinResult again;  // the connection is of no use any more, and says so at once
    const Status second = join_url("env://", test::request_for(-1, -1, IdBytes{}), &again);
    return right && second.text().find("earlier") != std::string::npos
               ? Status()
               : fail(Code::kInternalError, "{} / {}", status.text(), second.text());
  });
  std::thread serving([&] {
    // The absent rank's end is closed with serve()'s first step, so that the server ends with rank 0.
    server.serve();
  });
  processes.wait();
  serving.join();
  expect_all_ok(processes.page(), 1);
}

TEST(Pmi1, APmiFdThatIsNoneIsNamed) {
  set_pmi(987, 0, 2);
  JoinResult joined;
  const Status status = join_url("env://", test::request_for(-1, -1, IdBytes{}), &joined);
  EXPECT_EQ(status.code(), Code::kInvalidUsage);
  EXPECT_NE(status.text().find("PMI_FD=987"), std::string::npos) << status.text();
  clear_pmi();
}

// MPI_Finalize closes PMI_FD, and the next file that somebody opens gets its number.
TEST(Pmi1, ANumberThatStandsForAnotherFileIsLeftAlone) {
  int server[2];
  int other[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, server), 0);
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, other), 0);
  const Descriptor ends[] = {Descriptor(server[0]), Descriptor(server[1]), Descriptor(other[0]), Descriptor(other[1])};
  for (const bool reused : {true, false}) {
    const int number = ::fcntl(server[1], F_DUPFD_CLOEXEC, 3);
    PmiClient client("MPICH", Descriptor(number), true);
    ASSERT_EQ(::send(server[0], kStart.data(), kStart.size(), MSG_NOSIGNAL), static_cast<ssize_t>(kStart.size()));
    ASSERT_TRUE(client.start("", Deadline::in(kPatience)).ok());
    ::close(number);
    if (reused) {
      ASSERT_EQ(::dup2(other[1], number), number);
    }
    EXPECT_EQ(client.put("k", "v", Deadline::in(kPatience)).code(), Code::kInvalidUsage);
    EXPECT_FALSE(client.finalize(Deadline::in(kPatience)).ok());
    char byte = 0;
    EXPECT_EQ(::recv(other[0], &byte, 1, MSG_DONTWAIT), -1) << "it has written into somebody's file";
    if (reused) ::close(number);
  }
}

TEST(Pmi1, WhatAServerMaySayWrongEndsInAnError) {
  const std::string endless(64 * 1024, 'a');
  for (const std::string& answers :
       {std::string("\n"), std::string("cmd=\n"), std::string("cmd=maxes vallen_max=1024\n"), endless,
        std::string("cmd=response_to_init rc=0\ncmd=maxes vallen_max=0\n"),
        std::string("cmd=response_to_init rc=0\ncmd=maxes vallen_max=99999999999999999999\n"),
        std::string("cmd=response_to_init rc=0\ncmd=maxes vallen_max=9\ncmd=my_kvsname kvsname=\n"),
        std::string("cmd=response_to_init rc=0\ncmd=maxes\n"), std::string("\0\0\n", 3), std::string()}) {
    Script script(answers, true);
    const Status status = script.client().start("", Deadline::in(kPatience));
    EXPECT_EQ(status.code(), Code::kRemoteError) << status.text() << " after " << answers.substr(0, 80);
    EXPECT_LT(status.text().size(), 300U);
  }
  Script old("cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=-1\n");
  EXPECT_EQ(old.client().start("", Deadline::in(kPatience)).code(), Code::kUnsupported);
  Script silent("");
  EXPECT_EQ(silent.client().start("", Deadline::in(0.05)).code(), Code::kTimeout);
}

TEST(Pmi1, RefusalsAreTold) {
  Script script(kStart + "cmd=put_result rc=-1 msg=full\n");
  ASSERT_TRUE(script.client().start("", Deadline::in(kPatience)).ok());
  EXPECT_EQ(script.client().put("k", "v", Deadline::in(kPatience)).code(), Code::kRemoteError);
  EXPECT_EQ(script.client().put("k", std::string(1024, 'a'), Deadline::in(kPatience)).code(), Code::kUnsupported);
  Script empty(kStart + "cmd=get_result rc=-1 msg=none value=unknown\n");
  ASSERT_TRUE(empty.client().start("", Deadline::in(kPatience)).ok());
  std::string value;
  EXPECT_EQ(empty.client().get("k", Deadline::in(kPatience), &value).code(), Code::kRemoteError);
}

TEST(Pmi1, AServerByPortTellsThePlace) {
  Script script("cmd=initack\ncmd=set size=4\ncmd=set rank=2\ncmd=set debug=0\n" + kStart);
  ASSERT_TRUE(script.client().start("2", Deadline::in(kPatience)).ok());
  EXPECT_EQ(script.client().rank(), 2);
  EXPECT_EQ(script.client().ranks(), 4);
  Script wrong("cmd=initack\ncmd=set size=2\ncmd=set rank=2\ncmd=set debug=0\n" + kStart);
  EXPECT_EQ(wrong.client().start("2", Deadline::in(kPatience)).code(), Code::kRemoteError);
}

// Answers may come in pieces, and more than one at once.
TEST(Pmi1, LinesAreFoundWhateverTheirPieces) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const Descriptor server(ends[0]);
  PmiClient client("MPICH", Descriptor(ends[1]), false);
  std::thread slow([&] {
    for (const char letter : kStart) {
      (void)::send(server.get(), &letter, 1, MSG_NOSIGNAL);
      if (letter == '=') std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  EXPECT_TRUE(client.start("", Deadline::in(kPatience)).ok());
  slow.join();
}

}  // namespace
}  // namespace tutti

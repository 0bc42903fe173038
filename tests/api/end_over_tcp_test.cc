// Ranks that end while others still use what they sent over tcp.
// Covers transport/tcp/tcp_link.cc, comm/failure/wait_judge.cc, comm/failure/finalization.cc.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "support/ranks.h"

namespace tutti::test {
namespace {

/// How many messages of which size, and TUTTI_TLS.
struct Traffic {
  int messages;
  std::size_t bytes;
  const char* tls;
};

/// The ranks log to a file of the test's own; gone with the object.
class Log {
 public:
  explicit Log(const char* level) : level_("TUTTI_LOG", level) { ::unlink(path_.c_str()); }
  ~Log() { ::unlink(path_.c_str()); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  std::string text() const {
    std::ifstream file(path_);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

 private:
  const std::string path_ = ::testing::TempDir() + "tutti-far-ends-" + std::to_string(::getpid());
  const ScopedSetting level_;
  const ScopedSetting file_{"TUTTI_LOG_FILE", path_};
};

class FarEnds : public ::testing::TestWithParam<Traffic> {
 protected:
  const ScopedSetting transport_{"TUTTI_TRANSPORT", "tcp"};
  const ScopedSetting quiet_{"TUTTI_LOG_FILE", "/dev/null"};
  const ScopedSetting tls_{"TUTTI_TLS", GetParam().tls};
};

/// Messages that are not lent: the sender does not wait for the receiver.
class FarDeaths : public FarEnds {
 protected:
  /// Returns when a rank knows that another has ended.
  static void wait_for_news_of_death(tuttiComm_t comm) {
    const auto heard = [comm] {
      tuttiResult_t error = tuttiSuccess;
      EXPECT_EQ(tuttiCommGetAsyncError(comm, &error), tuttiSuccess);
      return error == tuttiRemoteError;
    };
    await(heard, "the news of the death");
  }
};

bool all_are(const std::vector<char>& bytes, int value) {
  return std::all_of(bytes.begin(), bytes.end(), [value](char byte) { return byte == static_cast<char>(value); });
}

// Rank 1 dies when all that rank 0 needs is on its way: only what it did not send is an error. Rank 0 knows of the
// death before it reads: else it may write a release first, which makes the system of the dead forget what it still
// sends. What rank 1 has not read when it dies does the same: it receives the last message before, and with it
// all that rank 0 said until then.
TEST_P(FarDeaths, WhatTheDeadSentIsUsedFirst) {
  const Traffic traffic = GetParam();
  Processes processes(2, [&](tuttiComm_t comm, int rank, Shared& shared) {
    std::vector<char> data(traffic.bytes);
    const auto broadcast = [&](int root = 1) {
      return tuttiBroadcast(data.data(), data.data(), data.size(), tuttiInt8, root, comm, nullptr);
    };
    for (const int root : {1, 0}) ASSERT_EQ(broadcast(root), tuttiSuccess) << tuttiGetLastError(comm);
    if (rank == 0) shared.wait_for_step(0, 1);
    if (rank == 0) wait_for_news_of_death(comm);
    for (int i = 1; i <= traffic.messages; ++i) {
      if (rank == 1) std::fill(data.begin(), data.end(), static_cast<char>(i));
      ASSERT_EQ(broadcast(), tuttiSuccess) << "message " << i << ": " << tuttiGetLastError(comm);
      EXPECT_TRUE(all_are(data, i)) << "message " << i;
    }
    if (rank == 1) ::kill(::getpid(), SIGKILL);
    EXPECT_EQ(broadcast(), tuttiRemoteError);
    EXPECT_NE(std::string(tuttiGetLastError(comm)).find("rank 1 "), std::string::npos) << tuttiGetLastError(comm);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiRemoteError);
  });
  EXPECT_TRUE(WIFSIGNALED(processes.wait(1)));
  processes.shared().step[0].store(1);
  EXPECT_EQ(processes.wait(0), 0);
}

// Rank 0 sends and destroys its communicator before rank 1 begins to receive. What it was told and never read (the
// releases of the small messages) must not cost what is still on its way.
TEST_P(FarEnds, WhatWasSentIsReceivedAfterDestroy) {
  const Traffic traffic = GetParam();
  Processes processes(2, [&](tuttiComm_t comm, int rank, Shared& shared) {
    std::vector<char> data(traffic.bytes);
    const auto move = [&](std::size_t bytes) {
      return rank == 0 ? tuttiSend(data.data(), bytes, tuttiInt8, 1, comm, nullptr)
                       : tuttiRecv(data.data(), bytes, tuttiInt8, 0, comm, nullptr);
    };
    for (int i = 0; i < 7; ++i) ASSERT_EQ(move(1), tuttiSuccess) << tuttiGetLastError(comm);
    if (rank == 1) {
      shared.wait_for_step(0, 1);
      ::usleep(100'000);  // it has destroyed it, most likely; either is right
    }
    for (int i = 1; i <= traffic.messages; ++i) {
      if (rank == 0) std::fill(data.begin(), data.end(), static_cast<char>(i));
      if (rank == 0 && i == traffic.messages) shared.step[0].store(1);
      ASSERT_EQ(move(data.size()), tuttiSuccess) << "message " << i << ": " << tuttiGetLastError(comm);
      EXPECT_TRUE(all_are(data, i)) << "message " << i;
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
  EXPECT_EQ(processes.wait(0), 0);
  EXPECT_EQ(processes.wait(1), 0);
}

// Rank 1 dies before it has taken part in anything: who sends to it does not wait for its greeting for ever.
TEST(FarSends, ToTheDeadAreErrors) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "tcp");
  const ScopedSetting quiet("TUTTI_LOG_FILE", "/dev/null");
  const ScopedSetting timeout("TUTTI_TIMEOUT", std::to_string(kFarSeconds));
  for (const bool begun : {false, true}) {  // whether the send has when it dies
    Processes processes(2, [&](tuttiComm_t comm, int rank, Shared& shared) {
      shared.step[rank].store(1);
      if (rank == 1) await_kill();
      if (!begun) shared.wait_for_step(0, 2);
      const char data = 1;
      EXPECT_EQ(tuttiSend(&data, 1, tuttiInt8, 1, comm, nullptr), tuttiRemoteError);
      EXPECT_NE(std::string(tuttiGetLastError(comm)).find("rank 1 "), std::string::npos) << tuttiGetLastError(comm);
      EXPECT_EQ(tuttiCommDestroy(comm), tuttiRemoteError);
    });
    for (const int rank : {0, 1}) processes.shared().wait_for_step(rank, 1);
    if (begun) ::usleep(20'000);  // most likely; either is right
    processes.signal(1, SIGKILL);
    EXPECT_TRUE(WIFSIGNALED(processes.wait(1)));
    processes.shared().step[0].store(2);
    EXPECT_EQ(processes.wait(0), 0);
  }
}

class FarStops : public ::testing::Test {
 protected:
  const ScopedSetting transport_{"TUTTI_TRANSPORT", "tcp"};
  const ScopedSetting reconnect_{"TUTTI_RECONNECT", "0.5"};
  const Log log_{"info"};

  /// From rank 1 to rank 0.
  static tuttiResult_t move(tuttiComm_t comm, int rank, char* data, std::size_t bytes) {
    return rank == 1 ? tuttiSend(data, bytes, tuttiInt8, 0, comm, nullptr)
                     : tuttiRecv(data, bytes, tuttiInt8, 1, comm, nullptr);
  }
};
/// Whether there is a connection already.
class TimedFarStopped : public FarStops, public ::testing::WithParamInterface<bool> {};
/// More than two systems hold for a peer that does not read.
constexpr std::size_t kMuch = std::size_t{64} << 20;

// A stopped rank is late, not unreachable, however short the time for reconnections is.
TEST_P(TimedFarStopped, RanksAreForTheDeadlineToJudge) {
  Processes processes(2, [&](tuttiComm_t comm, int rank, Shared& shared) {
    std::vector<char> data(kMuch);
    if (GetParam()) {
      ASSERT_EQ(move(comm, rank, data.data(), 1), tuttiSuccess) << tuttiGetLastError(comm);
    }
    EXPECT_EQ(tuttiCommSetTimeout(comm, 4), tuttiSuccess);
    shared.step[rank].store(1);
    if (rank == 0) await_kill();
    shared.wait_for_step(1, 2);
    EXPECT_EQ(move(comm, rank, data.data(), data.size()), tuttiTimeout);
    EXPECT_NE(std::string(tuttiGetLastError(comm)).find("rank 0 "), std::string::npos) << tuttiGetLastError(comm);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiTimeout);
  });
  for (const int rank : {0, 1}) processes.shared().wait_for_step(rank, 1);
  stop_process(processes.pid(0));
  processes.shared().step[1].store(2);
  EXPECT_EQ(processes.wait(1), 0);
}

INSTANTIATE_TEST_SUITE_P(Line, TimedFarStopped, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "is_there" : "is_new"; });

// Nor is a rank lost that computes for longer than that while a message waits for it.
TEST_F(FarStops, ASlowReaderKeepsItsConnection) {
  const ScopedSetting timeout("TUTTI_TIMEOUT", std::to_string(kFarSeconds));
  Processes processes(2, [&](tuttiComm_t comm, int rank, Shared& shared) {
    std::vector<char> data(kMuch);
    ASSERT_EQ(move(comm, rank, data.data(), 1), tuttiSuccess) << tuttiGetLastError(comm);
    if (rank == 1) std::fill(data.begin(), data.end(), 7);
    if (rank == 0) ::usleep(3'000'000);
    ASSERT_EQ(move(comm, rank, data.data(), data.size()), tuttiSuccess) << tuttiGetLastError(comm);
    EXPECT_TRUE(all_are(data, 7));
    if (rank == 1) shared.wait_for_step(0, 1);
    EXPECT_EQ(log_.text().find("was lost"), std::string::npos) << log_.text();
    EXPECT_NE(log_.text().find("joined"), std::string::npos) << "nothing is logged: " << log_.text();
    shared.step[rank].store(1);
    if (rank == 0) shared.wait_for_step(1, 1);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
  for (const int rank : {0, 1}) EXPECT_EQ(processes.wait(rank), 0);
}

std::string name_of(const ::testing::TestParamInfo<Traffic>& info) {
  const Traffic& traffic = info.param;
  return std::to_string(traffic.messages) + "_of_" + std::to_string(traffic.bytes) + "_tls_" + traffic.tls;
}
INSTANTIATE_TEST_SUITE_P(Traffic, FarDeaths,
                         ::testing::Values(Traffic{1, 8, "off"}, Traffic{4, 8, "on"}, Traffic{7, 8, "off"},
                                           Traffic{5, 60'000, "off"}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Traffic, FarEnds,
                         ::testing::Values(Traffic{1, 8, "off"}, Traffic{4, 8, "on"}, Traffic{2, 60'000, "off"},
                                           Traffic{1, 1'000'000, "off"}, Traffic{1, 1'000'000, "on"}),
                         name_of);

}  // namespace
}  // namespace tutti::test

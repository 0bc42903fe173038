// A message that was lost with its connection is sent again while its sender is elsewhere: in a call on another
// communicator, or outside of the library. Nobody waits for the message of a dead one.
// Covers comm/link_service.cc, comm/link_use.h, comm/failure/wait_judge.cc.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "support/connections.h"
#include "support/ranks.h"

namespace tutti::test {
namespace {

enum class Elsewhere { kOnAnotherCommunicator, kOnAStream, kOutside };

/// The sender, where it is while its message is wanted, how many elements that has, and TUTTI_TLS.
using LostCase = std::tuple<int, Elsewhere, int, const char*>;

class LostMessages : public ::testing::TestWithParam<LostCase> {
 protected:
  const int sender_ = std::get<0>(GetParam());
  const Elsewhere elsewhere_ = std::get<1>(GetParam());
  const int count_ = std::get<2>(GetParam());
  const ScopedSetting transport_{"TUTTI_TRANSPORT", "tcp"};
  const ScopedSetting tls_{"TUTTI_TLS", std::get<3>(GetParam())};
  const ScopedSetting timeout_{"TUTTI_TIMEOUT", "10"};
  const ScopedSetting quiet_{"TUTTI_LOG", "error"};

  void send(tuttiComm_t first, tuttiComm_t second, Shared& shared) const {
    shared.wait_for_step(1 - sender_, 1);
    std::vector<int> message(static_cast<std::size_t>(count_));
    std::iota(message.begin(), message.end(), 1);
    ASSERT_EQ(tuttiSend(message.data(), message.size(), tuttiInt32, 1 - sender_, first, nullptr), tuttiSuccess)
        << tuttiGetLastError(first);
    shared.step[sender_] = 1;
    if (elsewhere_ == Elsewhere::kOutside) return shared.wait_for_step(1 - sender_, 2);
    tuttiStream_t stream = nullptr;
    if (elsewhere_ == Elsewhere::kOnAStream) {
      ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    }
    int answer = 0;
    ASSERT_EQ(tuttiRecv(&answer, 1, tuttiInt32, 1 - sender_, second, stream), tuttiSuccess)
        << tuttiGetLastError(second);
    if (stream != nullptr) {
      ASSERT_EQ(tuttiStreamSynchronize(stream), tuttiSuccess) << tuttiGetLastError(second);
      ASSERT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    }
    EXPECT_EQ(answer, count_);
  }

  // What comes for a connection that this end has shut down is refused by the operating system, and lost.
  void receive(tuttiComm_t first, tuttiComm_t second, Shared& shared) const {
    ASSERT_GE(cut_connections(), 2);
    shared.step[1 - sender_] = 1;
    shared.wait_for_step(sender_, 1);
    std::vector<int> message(static_cast<std::size_t>(count_));
    ASSERT_EQ(tuttiRecv(message.data(), message.size(), tuttiInt32, sender_, first, nullptr), tuttiSuccess)
        << tuttiGetLastError(first);
    for (int i = 0; i < count_; ++i) ASSERT_EQ(message[static_cast<std::size_t>(i)], i + 1);
    shared.step[1 - sender_] = 2;
    if (elsewhere_ == Elsewhere::kOutside) return;
    ASSERT_EQ(tuttiSend(&count_, 1, tuttiInt32, sender_, second, nullptr), tuttiSuccess) << tuttiGetLastError(second);
  }
};

TEST_P(LostMessages, AreSentAgain) {
  Processes processes(2, [&](tuttiComm_t first, int rank, Shared& shared) {
    tuttiComm_t second = nullptr;
    ASSERT_EQ(tuttiCommSplit(first, 0, rank, &second, nullptr), tuttiSuccess) << tuttiGetLastError(first);
    // The lane of sends and receives is connected.
    for (const tuttiComm_t comm : {first, second}) {
      int other = -1;
      ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
      ASSERT_EQ(tuttiSend(&rank, 1, tuttiInt32, 1 - rank, comm, nullptr), tuttiSuccess);
      ASSERT_EQ(tuttiRecv(&other, 1, tuttiInt32, 1 - rank, comm, nullptr), tuttiSuccess);
      ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError(comm);
      ASSERT_EQ(other, 1 - rank);
    }
    if (rank == sender_) {
      send(first, second, shared);
    } else {
      receive(first, second, shared);
    }
    for (const tuttiComm_t comm : {second, first}) EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
  processes.expect_success();
}

std::string name_of(const ::testing::TestParamInfo<LostCase>& info) {
  static constexpr const char* kPlaces[] = {"on_another_communicator", "on_a_stream", "outside"};
  return "rank_" + std::to_string(std::get<0>(info.param)) + "_" +
         kPlaces[static_cast<std::size_t>(std::get<1>(info.param))] + "_" + std::to_string(std::get<2>(info.param)) +
         "_tls_" + std::get<3>(info.param);
}

INSTANTIATE_TEST_SUITE_P(Of, LostMessages,
                         ::testing::Combine(::testing::Values(0, 1),
                                            ::testing::Values(Elsewhere::kOnAnotherCommunicator, Elsewhere::kOnAStream,
                                                              Elsewhere::kOutside),
                                            ::testing::Values(1, 10'000), ::testing::Values("off", "on")),
                         name_of);

// Rank 1 has finished the call, and rank 0 knows that. Its message is lost with the connection, and it dies before it
// can make another one.
TEST(LostMessage, OfTheDeadIsNotWaitedFor) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "tcp");
  const ScopedSetting timeout("TUTTI_TIMEOUT", "10");
  const ScopedSetting quiet("TUTTI_LOG_FILE", "/dev/null");
  Processes processes(2, [&](tuttiComm_t comm, int rank, Shared& shared) {
    std::vector<int> of_control;
    for_each_connection([&](int descriptor) { of_control.push_back(descriptor); });
    shared.step[rank] = 1;
    shared.wait_for_step(1 - rank, 1);
    ASSERT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess) << tuttiGetLastError(comm);
    const auto is_of_data = [&](int descriptor) {
      return std::find(of_control.begin(), of_control.end(), descriptor) == of_control.end();
    };
    if (rank == 0) {
      shared.wait_for_step(1, 2);
      ASSERT_GE(cut_connections(is_of_data), 1);
      shared.step[0] = 2;
    } else {
      // The service thread looks at the links for a while after a new connection, and would notice the cut.
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      const rlimit none{0, 0};
      ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
      shared.step[1] = 2;
      shared.wait_for_step(0, 2);
    }
    const int one = 1;
    int sum = 0;
    const tuttiResult_t result = tuttiReduce(&one, &sum, 1, tuttiInt32, tuttiSum, 0, comm, nullptr);
    shared.report(rank, result, tuttiGetLastError(comm));
    if (rank == 1) await_kill();
    EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
  });
  Shared& shared = processes.shared();
  await([&] { return shared.result[1] != -1; }, "the end of the call on rank 1");
  ASSERT_EQ(shared.result[1], tuttiSuccess) << "rank 1 noticed the cut: " << shared.text[1];
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // rank 0 asks what rank 1 does, most likely
  EXPECT_EQ(shared.result[0], -1) << "nothing was lost: " << shared.text[0];
  processes.signal(1, SIGKILL);
  EXPECT_EQ(processes.wait(0), 0);
  EXPECT_EQ(shared.result[0], tuttiRemoteError) << shared.text[0];
  EXPECT_NE(std::string(shared.text[0]).find("died during reduce"), std::string::npos) << shared.text[0];
}

}  // namespace
}  // namespace tutti::test

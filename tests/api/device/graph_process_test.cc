// Graphs of ranks in several processes: replays are exact, also between other calls and with lent messages; what
// becomes of a replay when a rank dies, gives up or does not come, while no rank makes any call.
// Covers comm/graph_watch.cc, comm/failure/kernel_monitor.cc, transport/device/device_lending.cc.
#include <gtest/gtest.h>
#include <signal.h>
#include <tutti/tutti.h>

#include <chrono>
#include <functional>
#include <string>

#include "support/device/caller_stream.h"
#include "support/device/device_family.h"
#include "support/device/device_processes.h"
#include "support/texts.h"

namespace tutti::test {
namespace {

struct GraphLayout {
  const char* name;
  DeviceLayout layout;
  std::size_t count;  // of a block's elements
};
class GraphProcesses : public ::testing::TestWithParam<GraphLayout> {};

TEST_P(GraphProcesses, ReplaysAreExactBetweenOtherCalls) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "cuda");
  const auto& [name, layout, count] = GetParam();
  const int ranks = layout.ranks();
  DeviceProcesses processes(layout, [ranks, count = count](tuttiComm_t comm, int rank, Shared& shared) {
    ASSERT_NE(comm, nullptr) << shared.text[rank];
    {
      CallerStream stream(stand_in().current_device());
      DeviceFamily family(rank, ranks, stand_in().current_device(), count);
      std::uint32_t seed = 0;
      const auto call = [&](int times) {
        for (int i = 0; i < times; ++i) {
          family.fill(stream.cuda(), ++seed);
          family.call(comm, stream.get());
          EXPECT_EQ(tuttiStreamSynchronize(stream.get()), tuttiSuccess) << tuttiGetLastError(comm);
          family.check(seed);
        }
      };
      call(4);  // from the fourth one on large messages are lent
      const std::size_t lent = stand_in().lending_launches();
      const auto graph = stream.capture([&] { family.call(comm, stream.get()); });
      EXPECT_EQ(stand_in().lending_launches() > lent, count > 1000);
      EXPECT_EQ(tuttiStreamQuery(stream.get()), tuttiSuccess);
      for (int replay = 0; replay < 6; ++replay) {
        family.fill(stream.cuda(), ++seed);
        StandInDriver::launch(graph, stream.cuda());
        stream.drain();
        family.check(seed);
        if (replay % 3 == 2) call(1);
      }
      tuttiResult_t error = tuttiSuccess;
      EXPECT_EQ(tuttiCommGetAsyncError(comm, &error), tuttiSuccess);
      EXPECT_EQ(error, tuttiSuccess) << tuttiGetLastError(comm);
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
  processes.expect_success();
}
INSTANTIATE_TEST_SUITE_P(Layouts, GraphProcesses,
                         ::testing::Values(GraphLayout{"TwoOfOne", {2, 1, 1}, 500},
                                           GraphLayout{"ThreeOfOneLending", {3, 1, 1}, 50'001},
                                           GraphLayout{"TwoOfTwo", {2, 2, 2}, 500},
                                           GraphLayout{"TwoOfTwoLending", {2, 2, 2}, 50'001}),
                         [](const auto& info) { return info.param.name; });

/// Three ranks in three processes have captured a call and replay it until `stop` keeps rank 2 from it. The others then
/// report how their graphs ended, without any other call.
void replay_until(const std::function<void(tuttiComm_t comm, Shared& shared)>& stop, Shared& shared, tuttiComm_t comm,
                  int rank) {
  CallerStream stream(0);
  DeviceVector data(1000, 1.0f);
  const auto graph = stream.capture([&] {
    EXPECT_EQ(tuttiAllReduce(data.data(), data.data(), 1000, tuttiFloat32, tuttiMax, comm, stream.get()), tuttiSuccess)
        << tuttiGetLastError(comm);
  });
  for (int replay = 0; replay < 3; ++replay) StandInDriver::launch(graph, stream.cuda());
  stream.drain();
  EXPECT_TRUE(data.is(1.0f));
  shared.step[rank] = 1;
  for (const int peer : {0, 1, 2}) shared.wait_for_step(peer, 1);
  if (rank == 2) return stop(comm, shared);
  StandInDriver::launch(graph, stream.cuda());
  const auto begin = std::chrono::steady_clock::now();
  stream.drain();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << "its timeout is a minute";
  tuttiResult_t error = tuttiSuccess;
  EXPECT_EQ(tuttiCommGetAsyncError(comm, &error), tuttiSuccess);
  const std::string text = tuttiGetLastError(comm);
  shared.step[rank] = 2;  // first, because nobody waits for a step of a rank that has reported an error
  shared.report(rank, error, text.c_str());
  EXPECT_EQ(tuttiCommAbort(comm), tuttiSuccess);
}

TEST(GraphFailures, ADeathIsSeenThoughNobodyCalls) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const ScopedSetting timeout("TUTTI_TIMEOUT", "60");
  DeviceProcesses processes({3, 1, 1}, [](tuttiComm_t comm, int rank, Shared& shared) {
    replay_until([](tuttiComm_t, Shared&) { ::raise(SIGKILL); }, shared, comm, rank);
  });
  EXPECT_EQ(processes.wait(2), SIGKILL);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(processes.wait(rank), 0);
    EXPECT_EQ(processes.shared().result[rank], tuttiRemoteError) << processes.text(rank);
    EXPECT_TRUE(contains(processes.text(rank), "rank 2 (")) << processes.text(rank);
    EXPECT_TRUE(contains(processes.text(rank), "died")) << processes.text(rank);
  }
}

TEST(GraphFailures, AnAbortIsHeardThoughNobodyCalls) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const ScopedSetting timeout("TUTTI_TIMEOUT", "60");
  DeviceProcesses processes({3, 1, 1}, [](tuttiComm_t comm, int rank, Shared& shared) {
    const auto stop = [](tuttiComm_t aborted, Shared& all) {
      EXPECT_EQ(tuttiCommAbort(aborted), tuttiSuccess);
      for (const int peer : {0, 1}) all.wait_for_step(peer, 2);
    };
    replay_until(stop, shared, comm, rank);
  });
  for (const int rank : {0, 1, 2}) EXPECT_EQ(processes.wait(rank), 0);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(processes.shared().result[rank], tuttiRemoteError) << processes.text(rank);
    EXPECT_TRUE(contains(processes.text(rank), "rank 2 aborted")) << processes.text(rank);
  }
}

// A rank that is alive and does not come is the kernels' own to find.
TEST(GraphFailures, ARankThatDoesNotComeIsNamedAtTheTimeout) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const ScopedSetting timeout("TUTTI_TIMEOUT", "4");
  DeviceProcesses processes({3, 1, 1}, [](tuttiComm_t comm, int rank, Shared& shared) {
    const auto stop = [](tuttiComm_t late, Shared& all) {
      for (const int peer : {0, 1}) all.wait_for_step(peer, 2);
      EXPECT_EQ(tuttiCommAbort(late), tuttiSuccess);
    };
    replay_until(stop, shared, comm, rank);
  });
  for (const int rank : {0, 1, 2}) EXPECT_EQ(processes.wait(rank), 0);
  int timeouts = 0;
  for (const int rank : {0, 1}) {
    EXPECT_NE(processes.shared().result[rank], tuttiSuccess);
    timeouts += processes.shared().result[rank] == tuttiTimeout ? 1 : 0;
    EXPECT_TRUE(contains(processes.text(rank), "rank 2")) << processes.text(rank);
  }
  EXPECT_GT(timeouts, 0);
}

}  // namespace
}  // namespace tutti::test

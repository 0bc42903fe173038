// Calls captured into graphs: replays without the host, between other calls; what cannot be captured; failures that
// nobody waits for.
// Covers executor/device/device_executor.cc, comm/device_calls.cc, comm/failure/kernel_monitor.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "support/device/caller_stream.h"
#include "support/device/device_family.h"
#include "support/ranks.h"
#include "support/sanitized.h"

namespace tutti::test {
namespace {

using Integers = DeviceMemory<std::uint32_t>;

class Graphs : public ::testing::Test {
 protected:
  void SetUp() override { stand_in().set_devices(2); }
  void TearDown() override {
    stand_in().set_devices(1);
    EXPECT_EQ(stand_in().allocations(), before_);
  }
  const std::size_t before_ = stand_in().allocations();  // tests of aborts may leave memory behind
  const ScopedSetting transport_{"TUTTI_TRANSPORT", "cuda"};
};

class GraphReplays : public Graphs, public ::testing::WithParamInterface<int> {};

TEST_P(GraphReplays, AreExactBetweenOtherCalls) {
  const int ranks = GetParam();
  run_threads(ranks, [ranks](tuttiComm_t comm, int rank) {
    CallerStream stream(rank % 2);
    for (const std::size_t count : {std::size_t{6}, std::size_t{5003}}) {
      DeviceFamily family(rank, ranks, rank % 2, count);
      const auto graph = stream.capture([&] { family.call(comm, stream.get()); });
      EXPECT_EQ(tuttiStreamQuery(stream.get()), tuttiSuccess);  // nothing has run, and nothing is watched
      std::uint32_t seed = 0;
      for (int round = 0; round < (kSanitized ? 3 : 8); ++round) {
        for (int replay = 0; replay < 3; ++replay) {
          family.fill(stream.cuda(), ++seed);
          StandInDriver::launch(graph, stream.cuda());
          stream.drain();
          family.check(seed);
        }
        family.fill(stream.cuda(), ++seed);
        family.call(comm, stream.get());
        EXPECT_EQ(tuttiStreamSynchronize(stream.get()), tuttiSuccess) << tuttiGetLastError(comm);
        family.check(seed);
        family.fill(stream.cuda(), ++seed);
        stream.drain();
        family.call(comm, nullptr);
        family.check(seed);
      }
    }
    tuttiResult_t error = tuttiSuccess;
    EXPECT_EQ(tuttiCommGetAsyncError(comm, &error), tuttiSuccess);
    EXPECT_EQ(error, tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
}
INSTANTIATE_TEST_SUITE_P(Ranks, GraphReplays, ::testing::Values(1, 2, 3, 4));

// Scratch that a graph uses stays when later calls need more.
TEST_F(Graphs, KeepWhatTheyUse) {
  const ScopedSetting algorithm("TUTTI_ALGO", "ring");
  constexpr int kRanks = 8;
  Meeting together(kRanks);  // the default stream takes nothing while any rank captures
  run_threads(kRanks, [&together](tuttiComm_t comm, int rank) {
    CallerStream stream(rank % 2);
    const auto reduce = [&](Integers* data, std::size_t count, tuttiStream_t where) {
      EXPECT_EQ(tuttiAllReduce(data->data(), data->data(), count, tuttiUint32, tuttiSum, comm, where), tuttiSuccess)
          << tuttiGetLastError(comm);
      EXPECT_EQ(tuttiReduceScatter(data->data(), data->data() + static_cast<std::size_t>(rank) * (count / kRanks),
                                   count / kRanks, tuttiUint32, tuttiSum, comm, where),
                tuttiSuccess)
          << tuttiGetLastError(comm);
    };
    Integers small(80, 1, rank % 2), large(200'000, 1, rank % 2);
    const auto graph = stream.capture([&] { reduce(&small, 80, stream.get()); });
    together.arrive_and_wait();
    reduce(&large, 200'000, nullptr);
    for (int replay = 0; replay < 3; ++replay) {
      StandInDriver::put(stream.cuda(), [&small] { small.fill(1); });
      StandInDriver::launch(graph, stream.cuda());
      stream.drain();
      EXPECT_EQ(small[static_cast<std::size_t>(rank) * 10], kRanks * kRanks);
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
}

// Two streams of one capture: the calls keep their order, which no user's event says.
TEST_F(Graphs, OrderCallsOnSeveralStreams) {
  run_threads(2, [](tuttiComm_t comm, int rank) {
    CallerStream first(rank), second(rank);
    Integers data(3000, 0, rank);
    DeviceDriver::Event forked = nullptr, joined = nullptr;
    ASSERT_TRUE(stand_in().create_event(rank, &forked).ok());
    ASSERT_TRUE(stand_in().create_event(rank, &joined).ok());
    stand_in().begin_capture(first.cuda());
    ASSERT_TRUE(stand_in().record(rank, forked, first.cuda()).ok());
    ASSERT_TRUE(stand_in().wait(rank, second.cuda(), forked).ok());
    for (const CallerStream* const stream : {&first, &second, &first, &second})
      EXPECT_EQ(tuttiAllReduce(data.data(), data.data(), 3000, tuttiUint32, tuttiSum, comm, stream->get()),
                tuttiSuccess)
          << tuttiGetLastError(comm);
    ASSERT_TRUE(stand_in().record(rank, joined, second.cuda()).ok());
    ASSERT_TRUE(stand_in().wait(rank, first.cuda(), joined).ok());
    std::shared_ptr<const Graph> graph;
    const Status ended = stand_in().end_capture({first.cuda(), second.cuda()}, &graph);
    ASSERT_TRUE(ended.ok()) << ended.text();
    for (int replay = 0; replay < 5; ++replay) {
      StandInDriver::put(first.cuda(), [&data] { data.fill(1); });
      StandInDriver::launch(graph, first.cuda());
    }
    first.drain();
    EXPECT_EQ(data[2999], 16u);
    ASSERT_TRUE(stand_in().destroy_event(forked).ok());
    ASSERT_TRUE(stand_in().destroy_event(joined).ok());
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
}

// Each is refused before it has any effect: the capture goes on, and so does the communicator, with the same numbers
// of operations on all ranks.
TEST_F(Graphs, RefuseWhatAReplayCannotDo) {
  Meeting together(2);
  run_threads(2, [&together](tuttiComm_t comm, int rank) {
    CallerStream stream(rank);
    Integers data(10, 1, rank);
    std::vector<std::uint32_t> host(10, 1);
    tuttiStream_t legacy = nullptr;
    ASSERT_EQ(tuttiStreamFromCuda(&legacy, nullptr), tuttiSuccess);
    const auto reduce = [&](std::uint32_t* buffer, tuttiStream_t where) {
      return tuttiAllReduce(buffer, buffer, 10, tuttiUint32, tuttiSum, comm, where);
    };
    together.arrive_and_wait();
    std::shared_ptr<const Graph> graph;
    if (rank == 0) {
      graph = stream.capture([&] {
        EXPECT_EQ(reduce(host.data(), stream.get()), tuttiInvalidUsage);
        EXPECT_NE(std::string(tuttiGetLastError(comm)).find("runs without the host"), std::string::npos)
            << tuttiGetLastError(comm);
        for (const tuttiStream_t where : {tuttiStream_t{nullptr}, legacy}) {
          EXPECT_EQ(reduce(data.data(), where), tuttiInvalidUsage);
          EXPECT_NE(std::string(tuttiGetLastError(comm)).find("captured"), std::string::npos)
              << tuttiGetLastError(comm);
        }
        ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
        EXPECT_EQ(reduce(data.data(), nullptr), tuttiInvalidUsage);
        EXPECT_EQ(tuttiGroupEnd(), tuttiInvalidUsage);
        EXPECT_EQ(reduce(data.data(), stream.get()), tuttiSuccess) << tuttiGetLastError(comm);
      });
    }
    together.arrive_and_wait();
    if (rank == 0) StandInDriver::launch(graph, stream.cuda());
    if (rank == 1) {
      EXPECT_EQ(reduce(data.data(), nullptr), tuttiSuccess) << tuttiGetLastError(comm);
    }
    stream.drain();
    EXPECT_EQ(data[9], 2u);
    EXPECT_EQ(reduce(data.data(), nullptr), tuttiSuccess) << tuttiGetLastError(comm);
    EXPECT_EQ(data[9], 4u);
    EXPECT_EQ(reduce(host.data(), nullptr), tuttiSuccess) << tuttiGetLastError(comm);
    EXPECT_EQ(host[9], 2u);
    EXPECT_EQ(tuttiStreamDestroy(legacy), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
}

// The kernel gives up by its own clock; the rank hears of it when it asks, and when it calls.
TEST_F(Graphs, FailuresOfReplaysAreFound) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  Meeting together(2);
  run_threads(2, [&together](tuttiComm_t comm, int rank) {
    CallerStream stream(rank);
    Integers data(10, 1, rank);
    EXPECT_EQ(tuttiCommSetTimeout(comm, 4), tuttiSuccess);
    const auto reduce = [&](tuttiStream_t where) {
      return tuttiAllReduce(data.data(), data.data(), 10, tuttiUint32, tuttiSum, comm, where);
    };
    const auto graph = stream.capture([&] { EXPECT_EQ(reduce(stream.get()), tuttiSuccess); });
    if (rank == 0) StandInDriver::launch(graph, stream.cuda());
    stream.drain();
    tuttiResult_t error = tuttiSuccess;
    if (rank == 0) {
      EXPECT_EQ(tuttiCommGetAsyncError(comm, &error), tuttiSuccess);
      EXPECT_EQ(error, tuttiTimeout);
      EXPECT_NE(std::string(tuttiGetLastError(comm)).find("rank 1"), std::string::npos) << tuttiGetLastError(comm);
    }
    together.arrive_and_wait();
    EXPECT_EQ(reduce(rank == 0 ? stream.get() : nullptr), tuttiTimeout) << tuttiGetLastError(comm);
    EXPECT_NE(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

// Without a question in between.
TEST_F(Graphs, FailuresOfReplaysAreFoundByTheNextCall) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  Meeting together(2);
  run_threads(2, [&together](tuttiComm_t comm, int rank) {
    CallerStream stream(rank);
    Integers data(10, 1, rank);
    std::vector<std::uint32_t> host(10, 1);
    const auto on_host = [&] {
      return tuttiAllReduce(host.data(), host.data(), 10, tuttiUint32, tuttiSum, comm, nullptr);
    };
    EXPECT_EQ(on_host(), tuttiSuccess);
    EXPECT_EQ(on_host(), tuttiSuccess);
    EXPECT_EQ(tuttiCommSetTimeout(comm, 4), tuttiSuccess);
    const auto graph = stream.capture([&] {
      EXPECT_EQ(tuttiAllReduce(data.data(), data.data(), 10, tuttiUint32, tuttiSum, comm, stream.get()), tuttiSuccess);
    });
    EXPECT_EQ(on_host(), tuttiSuccess);
    if (rank == 0) StandInDriver::launch(graph, stream.cuda());
    stream.drain();
    together.arrive_and_wait();
    EXPECT_EQ(on_host(), tuttiTimeout) << tuttiGetLastError(comm);
    EXPECT_NE(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

}  // namespace
}  // namespace tutti::test

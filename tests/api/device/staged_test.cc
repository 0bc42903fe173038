// Device buffers that go through host memory: where kernels cannot reach the peers, where some ranks have host buffers,
// and where the processor has to compute. The stand-in's device memory cannot be touched here but by its copies.
// Covers executor/device/staged_executor.cc, executor/device/*_segments.cc, executor/device/copy_stream.h,
// device/stream_gate.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "cases/collective_cases.h"
#include "cases/effort_of.h"
#include "support/device/staged_fixture.h"
#include "support/sanitized.h"

namespace tutti::test {
namespace {

enum class BufferKinds { kDevice, kMixed };

class StagedCases : public Staged, public ::testing::WithParamInterface<std::tuple<int, BufferKinds>> {};

TEST_P(StagedCases, AreExact) {
  const auto [ranks, kinds] = GetParam();
  const std::size_t launches = stand_in().launches();
  stand_in().take_all_memory(true);
  run_threads(ranks, [ranks = ranks, kinds = kinds](tuttiComm_t comm, int rank) {
    StandInDriver::use(rank);
    StandInDriver::take_host_memory(kinds == BufferKinds::kMixed && rank % 2 == 1);
    const cases::Outcome outcome = cases::run_all_cases(comm, rank, ranks, cases::sample_of(cases::Effort::kFew), 4);
    EXPECT_GT(outcome.checked, 0);
    EXPECT_EQ(outcome.failed, 0) << "of " << outcome.checked;
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
  if (ranks > 1) {
    EXPECT_EQ(stand_in().launches(), launches) << "a kernel ran";
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, StagedCases,
                         ::testing::Values(std::tuple(1, BufferKinds::kDevice), std::tuple(2, BufferKinds::kDevice),
                                           std::tuple(3, BufferKinds::kDevice), std::tuple(4, BufferKinds::kDevice),
                                           std::tuple(5, BufferKinds::kDevice), std::tuple(8, BufferKinds::kDevice),
                                           std::tuple(2, BufferKinds::kMixed), std::tuple(5, BufferKinds::kMixed)),
                         [](const auto& info) {
                           return std::to_string(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) == BufferKinds::kMixed ? "_mixed" : "_device");
                         });

/// Calls of many segments, each with segments that are not whole, on memory that only copies can touch.
class StagedLarge : public Staged, public ::testing::WithParamInterface<BufferKinds> {
 protected:
  static constexpr int kRanks = 3;
  static constexpr std::size_t kCount =
      kSanitized ? 1'300'007 : 3'500'017;  // of the forms with one block; 4 MiB a segment
  static constexpr std::size_t kBlock = kCount / kRanks;
  void run(const std::function<void(tuttiComm_t comm, int rank, bool on_device)>& body) {
    stand_in().hide_memory(true);
    run_threads(kRanks, [&](tuttiComm_t comm, int rank) {
      const bool on_device = GetParam() == BufferKinds::kDevice || rank != 1;
      StandInDriver::use(rank);
      body(comm, rank, on_device);
      EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
    });
  }
  static float sum(std::size_t block, std::size_t i) {
    float all = 0;
    for (int rank = 0; rank < kRanks; ++rank) all += value_of(rank, block, i);
    return all;
  }
};

TEST_P(StagedLarge, ReductionsInPlaceAndNot) {
  run([](tuttiComm_t comm, int rank, bool on_device) {
    Values in(blocks_of(rank, 1, kCount), on_device, rank), out(kCount, on_device, rank);
    ASSERT_EQ(tuttiAllReduce(in.data(), out.data(), kCount, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
    ASSERT_EQ(tuttiAllReduce(in.data(), in.data(), kCount, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
    std::vector<float> expected(kCount);
    for (std::size_t i = 0; i < kCount; ++i) expected[i] = sum(0, i);
    EXPECT_TRUE(out.get() == expected);
    EXPECT_TRUE(in.get() == expected);
    Values parts(blocks_of(rank, kRanks, kBlock), on_device, rank), part(kBlock, on_device, rank);
    ASSERT_EQ(tuttiReduceScatter(parts.data(), part.data(), kBlock, tuttiFloat32, tuttiSum, comm, nullptr),
              tuttiSuccess);
    expected.resize(kBlock);
    for (std::size_t i = 0; i < kBlock; ++i) expected[i] = sum(static_cast<std::size_t>(rank), i);
    EXPECT_TRUE(part.get() == expected);
    float* const own = static_cast<float*>(parts.data()) + static_cast<std::size_t>(rank) * kBlock;
    ASSERT_EQ(tuttiReduceScatter(parts.data(), own, kBlock, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
    const std::vector<float> whole = parts.get();
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), whole.begin() + rank * static_cast<long>(kBlock)));
  });
}

TEST_P(StagedLarge, RootedAndExchanges) {
  run([](tuttiComm_t comm, int rank, bool on_device) {
    const bool root = rank == 2;
    Values one(blocks_of(rank, 1, kBlock), on_device, rank), all(kBlock * kRanks, on_device, rank);
    std::vector<float> gathered;
    for (int r = 0; r < kRanks; ++r) {
      const std::vector<float> block = blocks_of(r, 1, kBlock);
      gathered.insert(gathered.end(), block.begin(), block.end());
    }
    ASSERT_EQ(tuttiAllGather(one.data(), all.data(), kBlock, tuttiFloat32, comm, nullptr), tuttiSuccess);
    EXPECT_TRUE(all.get() == gathered);
    Values parts(blocks_of(rank, kRanks, kBlock), on_device, rank);
    ASSERT_EQ(tuttiAllToAll(parts.data(), all.data(), kBlock, tuttiFloat32, comm, nullptr), tuttiSuccess);
    std::vector<float> expected;
    for (int r = 0; r < kRanks; ++r)
      for (std::size_t i = 0; i < kBlock; ++i) expected.push_back(value_of(r, static_cast<std::size_t>(rank), i));
    EXPECT_TRUE(all.get() == expected);
    ASSERT_EQ(tuttiGather(one.data(), root ? all.data() : nullptr, kBlock, tuttiFloat32, 2, comm, nullptr),
              tuttiSuccess);
    EXPECT_TRUE(all.get() == (root ? gathered : expected));
    Values mine(kBlock, on_device, rank);
    ASSERT_EQ(tuttiScatter(root ? parts.data() : nullptr, mine.data(), kBlock, tuttiFloat32, 2, comm, nullptr),
              tuttiSuccess);
    std::vector<float> scattered;
    for (std::size_t i = 0; i < kBlock; ++i) scattered.push_back(value_of(2, static_cast<std::size_t>(rank), i));
    EXPECT_TRUE(mine.get() == scattered);
    ASSERT_EQ(tuttiBroadcast(parts.data(), parts.data(), kCount - 10, tuttiFloat32, 2, comm, nullptr), tuttiSuccess);
    const std::vector<float> theirs = blocks_of(2, kRanks, kBlock), copied = parts.get();
    EXPECT_TRUE(std::equal(theirs.begin(), theirs.begin() + kCount - 10, copied.begin()));
  });
}

// Blocks of very different sizes, some empty, some of several segments.
TEST_P(StagedLarge, RaggedBlocks) {
  run([](tuttiComm_t comm, int rank, bool on_device) {
    const auto size = [](int from, int to) {
      return from == to ? 0 : kBlock * static_cast<std::size_t>(from * 2 + to) / 3 + 5;
    };
    std::size_t sends[kRanks], recvs[kRanks], send_at[kRanks], recv_at[kRanks], counts[kRanks], at[kRanks];
    std::size_t sent = 0, received = 0, gathered = 0;
    for (int r = 0; r < kRanks; ++r) {
      send_at[r] = std::exchange(sent, sent + (sends[r] = size(rank, r)) + 3);
      recv_at[r] = std::exchange(received, received + (recvs[r] = size(r, rank)) + 1);
      at[r] = std::exchange(gathered, gathered + (counts[r] = r == 1 ? 0 : kBlock * static_cast<std::size_t>(r + 1)));
    }
    std::vector<float> input(sent, -1), expected(received, -2);
    for (int r = 0; r < kRanks; ++r) {
      for (std::size_t i = 0; i < sends[r]; ++i) input[send_at[r] + i] = value_of(rank, static_cast<std::size_t>(r), i);
      for (std::size_t i = 0; i < recvs[r]; ++i)
        expected[recv_at[r] + i] = value_of(r, static_cast<std::size_t>(rank), i);
    }
    Values in(input, on_device, rank), out(std::vector<float>(received, -2), on_device, rank);
    ASSERT_EQ(tuttiAllToAllV(in.data(), sends, send_at, out.data(), recvs, recv_at, tuttiFloat32, comm, nullptr),
              tuttiSuccess)
        << tuttiGetLastError(comm);
    EXPECT_TRUE(out.get() == expected) << "what lies between blocks stays";
    Values one(blocks_of(rank, 1, counts[rank]), on_device, rank), all(gathered, on_device, rank);
    ASSERT_EQ(tuttiAllGatherV(one.data(), all.data(), counts[rank], counts, at, tuttiFloat32, comm, nullptr),
              tuttiSuccess)
        << tuttiGetLastError(comm);
    expected.clear();
    for (int r = 0; r < kRanks; ++r) {
      const std::vector<float> block = blocks_of(r, 1, counts[r]);
      expected.insert(expected.end(), block.begin(), block.end());
    }
    EXPECT_TRUE(all.get() == expected);
  });
}

TEST_P(StagedLarge, MessagesAndOperationsOfTheCallers) {
  run([](tuttiComm_t comm, int rank, bool on_device) {
    Values out(blocks_of(rank, 1, kCount), on_device, rank), in(kCount, on_device, rank);
    const int next = (rank + 1) % kRanks, before = (rank + kRanks - 1) % kRanks;
    ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
    EXPECT_EQ(tuttiSend(out.data(), kCount, tuttiFloat32, next, comm, nullptr), tuttiSuccess);
    EXPECT_EQ(tuttiRecv(in.data(), kCount, tuttiFloat32, before, comm, nullptr), tuttiSuccess);
    ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError(comm);
    EXPECT_TRUE(in.get() == blocks_of(before, 1, kCount));
    float factor = static_cast<float>(rank + 1);
    tuttiRedOp_t scaled = tuttiSum;
    ASSERT_EQ(tuttiRedOpCreatePreMulSum(&scaled, &factor, tuttiFloat32, tuttiScalarHostImmediate, comm), tuttiSuccess);
    ASSERT_EQ(tuttiAllReduce(out.data(), in.data(), kCount, tuttiFloat32, scaled, comm, nullptr), tuttiSuccess)
        << tuttiGetLastError(comm);
    std::vector<float> expected(kCount);
    for (std::size_t i = 0; i < kCount; ++i)
      for (int r = 0; r < kRanks; ++r) expected[i] += static_cast<float>(r + 1) * value_of(r, 0, i);
    EXPECT_TRUE(in.get() == expected);
    EXPECT_TRUE(out.get() == blocks_of(rank, 1, kCount)) << "the input was changed";
    EXPECT_EQ(tuttiRedOpDestroy(scaled, comm), tuttiSuccess);
  });
}

INSTANTIATE_TEST_SUITE_P(Kinds, StagedLarge, ::testing::Values(BufferKinds::kDevice, BufferKinds::kMixed),
                         [](const auto& info) { return info.param == BufferKinds::kMixed ? "mixed" : "device"; });

// Nothing blocks the host; what the caller put before a call is done before it, and what is put after it sees its
// result.
TEST_F(StagedStreams, CallsStandInTheOrderOfTheCallersWork) {
  run_threads(2, [](tuttiComm_t comm, int rank) {
    StandInDriver::use(rank);
    constexpr std::size_t kCount = 2'000'003;
    Values data(kCount, true, rank);
    float* const values = data.real();
    std::atomic<bool> go{false};
    std::vector<float> between(kCount), end(kCount);
    {
      CallerStream stream(rank), other(rank);
      stream.put([&go, values] {
        await([&] { return go.load(); }, "the word to go on");
        std::fill_n(values, kCount, 1.0f);
      });
      const auto reduce = [&](tuttiStream_t on) {
        return tuttiAllReduce(data.data(), data.data(), kCount, tuttiFloat32, tuttiSum, comm, on);
      };
      EXPECT_EQ(reduce(stream.get()), tuttiSuccess) << tuttiGetLastError(comm);
      stream.put([&between, values] { std::copy_n(values, kCount, between.begin()); });
      EXPECT_EQ(reduce(stream.get()), tuttiSuccess);
      EXPECT_EQ(tuttiBarrier(comm, stream.get()), tuttiSuccess) << tuttiGetLastError(comm);
      EXPECT_EQ(tuttiStreamQuery(stream.get()), tuttiInProgress);
      go.store(true);
      EXPECT_EQ(tuttiStreamSynchronize(stream.get()), tuttiSuccess) << tuttiGetLastError(comm);
      EXPECT_EQ(reduce(other.get()), tuttiSuccess);
      other.put([&end, values] { std::copy_n(values, kCount, end.begin()); });
      other.drain();
      stream.drain();
    }
    EXPECT_TRUE(between == std::vector<float>(kCount, 2.0f));
    EXPECT_TRUE(end == std::vector<float>(kCount, 8.0f));
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

TEST_F(StagedStreams, MessagesAndGroups) {
  run_threads(2, [](tuttiComm_t comm, int rank) {
    StandInDriver::use(rank);
    constexpr std::size_t kCount = 100'003;
    Values out(blocks_of(rank, 1, kCount), true, rank), in(kCount, true, rank), sum(kCount, true, rank);
    {
      CallerStream stream(rank);
      ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
      EXPECT_EQ(tuttiSend(out.data(), kCount, tuttiFloat32, 1 - rank, comm, stream.get()), tuttiSuccess);
      EXPECT_EQ(tuttiRecv(in.data(), kCount, tuttiFloat32, 1 - rank, comm, stream.get()), tuttiSuccess);
      EXPECT_EQ(tuttiAllReduce(out.data(), sum.data(), kCount, tuttiFloat32, tuttiSum, comm, stream.get()),
                tuttiSuccess);
      ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError(comm);
      EXPECT_EQ(tuttiStreamSynchronize(stream.get()), tuttiSuccess) << tuttiGetLastError(comm);
      std::vector<float> host(10);
      EXPECT_EQ(tuttiBroadcast(host.data(), host.data(), 10, tuttiFloat32, 0, comm, stream.get()), tuttiInvalidUsage);
    }
    EXPECT_TRUE(in.get() == blocks_of(1 - rank, 1, kCount));
    std::vector<float> expected(kCount);
    for (std::size_t i = 0; i < kCount; ++i) expected[i] = value_of(0, 0, i) + value_of(1, 0, i);
    EXPECT_TRUE(sum.get() == expected);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

// The copies' stream is of one device, which need not reach the others: no kernel touches what is not its own.
TEST_F(StagedStreams, ARanksBuffersMayBeOfSeveralDevices) {
  run_threads(2, [](tuttiComm_t comm, int rank) {
    StandInDriver::use(rank);
    for (const std::size_t count : {10, 100'003}) {
      Values in(blocks_of(rank, 1, count), true, rank), out(count, true, rank + 2);
      std::vector<float> expected(count);
      for (std::size_t i = 0; i < count; ++i) expected[i] = value_of(0, 0, i) + value_of(1, 0, i);
      ASSERT_EQ(tuttiAllReduce(in.data(), out.data(), count, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess)
          << tuttiGetLastError(comm);
      EXPECT_TRUE(out.get() == expected);
      const std::size_t counts[] = {count, count}, at[] = {0, count};
      Values both(2 * count, true, rank + 4);
      ASSERT_EQ(tuttiAllGatherV(in.data(), both.data(), count, counts, at, tuttiFloat32, comm, nullptr), tuttiSuccess)
          << tuttiGetLastError(comm);
      EXPECT_TRUE(std::equal(both.real() + count, both.real() + 2 * count, blocks_of(1, 1, count).begin()));
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

// Memory for them may wait for the device, where a caller's stream waits for this very call.
TEST_F(StagedStreams, SmallBlocksOfDifferentSizesTakeNoMoreMemory) {
  const ScopedSetting slots("TUTTI_SHM_SLOT_BYTES", "4194304"), tiles("TUTTI_TILE_BYTES", "4194304");
  run_threads(3, [](tuttiComm_t comm, int rank) {
    StandInDriver::use(rank);
    const std::size_t counts[] = {10, 0, 20}, at[] = {0, 10, 10};
    const auto index = static_cast<std::size_t>(rank);
    Values in(blocks_of(rank, 1, counts[index]), true, rank), out(30, true, rank);
    uint64_t before = 0, after = 0;
    EXPECT_EQ(tuttiAllReduce(out.data(), out.data(), 30, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
    EXPECT_EQ(tuttiCommMemStats(comm, tuttiMemStatHost, &before), tuttiSuccess);
    EXPECT_EQ(tuttiAllGatherV(in.data(), out.data(), counts[index], counts, at, tuttiFloat32, comm, nullptr),
              tuttiSuccess)
        << tuttiGetLastError(comm);
    EXPECT_EQ(tuttiCommMemStats(comm, tuttiMemStatHost, &after), tuttiSuccess);
    EXPECT_LT(after, before + (std::uint64_t{1} << 20));
    std::vector<float> expected = blocks_of(0, 1, 10);
    for (const float value : blocks_of(2, 1, 20)) expected.push_back(value);
    EXPECT_EQ(out.get(), expected);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

// The progress thread begins calls on host memory while the caller's makes the first one on device memory.
TEST_F(StagedStreams, TheFirstCallComesBesideMessagesOfHostMemory) {
  run_threads(2, [](tuttiComm_t comm, int rank) {
    StandInDriver::use(rank);
    tuttiStream_t queue = nullptr;
    ASSERT_EQ(tuttiStreamCreate(&queue), tuttiSuccess);
    std::vector<int> host(100, rank);
    Values data(std::vector<float>(100, 1.0f), true, rank);
    for (int i = 0; i < 100; ++i) {
      int* const one = host.data() + i;
      EXPECT_EQ(
          rank == 0 ? tuttiSend(one, 1, tuttiInt32, 1, comm, queue) : tuttiRecv(one, 1, tuttiInt32, 0, comm, queue),
          tuttiSuccess);
    }
    EXPECT_EQ(tuttiAllReduce(data.data(), data.data(), 100, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
    EXPECT_EQ(data.get(), std::vector<float>(100, 2.0f));
    EXPECT_EQ(host, std::vector<int>(100, 0));
    EXPECT_EQ(tuttiStreamDestroy(queue), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

TEST_F(StagedStreams, CallsThatMoveNothing) {
  run_threads(3, [](tuttiComm_t comm, int rank) {
    StandInDriver::use(rank);
    const bool on_device = rank != 1;
    Values in(10, on_device, rank), out(10, on_device, rank);
    std::vector<float> sentinel(10, 7.0f);
    std::copy(sentinel.begin(), sentinel.end(), out.real());
    const std::size_t none[] = {0, 0, 0}, at[] = {1, 2, 3};
    CallerStream caller(rank);
    const tuttiStream_t stream = on_device ? caller.get() : nullptr;
    std::atomic<bool> behind{false};
    EXPECT_EQ(tuttiAllReduce(in.data(), out.data(), 0, tuttiFloat32, tuttiSum, comm, stream), tuttiSuccess);
    EXPECT_EQ(tuttiAllToAllV(in.data(), none, at, out.data(), none, at, tuttiFloat32, comm, stream), tuttiSuccess);
    EXPECT_EQ(tuttiAllToAllV(rank == 2 ? nullptr : in.data(), none, at, nullptr, none, at, tuttiFloat32, comm, stream),
              tuttiSuccess)
        << tuttiGetLastError(comm);
    EXPECT_EQ(tuttiAllGatherV(in.data(), out.data(), 0, none, at, tuttiFloat32, comm, stream), tuttiSuccess);
    EXPECT_EQ(tuttiReduce(in.data(), out.data(), 0, tuttiFloat32, tuttiSum, 0, comm, stream), tuttiSuccess);
    EXPECT_EQ(tuttiBarrier(comm, stream), tuttiSuccess);
    ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
    EXPECT_EQ(tuttiAllReduce(in.data(), out.data(), 0, tuttiFloat32, tuttiSum, comm, stream), tuttiSuccess);
    EXPECT_EQ(tuttiAllReduce(in.data(), out.data(), 0, tuttiFloat32, tuttiSum, comm, stream), tuttiSuccess);
    EXPECT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError(comm);
    caller.put([&behind] { behind.store(true); });
    EXPECT_EQ(tuttiStreamSynchronize(caller.get()), tuttiSuccess) << tuttiGetLastError(comm);
    caller.drain();
    EXPECT_TRUE(behind.load());
    EXPECT_EQ(out.get(), sentinel);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
}

TEST_F(StagedStreams, TwoCommunicatorsOnOneStream) {
  run_threads(2, [](tuttiComm_t comm, int rank) {
    StandInDriver::use(rank);
    tuttiComm_t other = nullptr;
    ASSERT_EQ(tuttiCommSplit(comm, 0, 1 - rank, &other, nullptr), tuttiSuccess) << tuttiGetLastError(comm);
    Values data(std::vector<float>(300'000, 1.0f), true, rank);
    {
      CallerStream caller(rank);
      for (int i = 0; i < 10; ++i)
        for (const tuttiComm_t one : {comm, other})
          EXPECT_EQ(tuttiAllReduce(data.data(), data.data(), 300'000, tuttiFloat32, tuttiSum, one, caller.get()),
                    tuttiSuccess);
      EXPECT_EQ(tuttiCommDestroy(other), tuttiSuccess) << tuttiGetLastError(nullptr);  // after what is under way
      EXPECT_EQ(tuttiStreamSynchronize(caller.get()), tuttiSuccess) << tuttiGetLastError(comm);
      caller.drain();
    }
    EXPECT_EQ(data.real()[299'999], 1048576.0f);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
}

// Ranks with host memory would pack these into one exchange: no rank knows what memory the others have.
TEST_F(StagedStreams, SmallCallsOfAGroupInMemoryOfBothKinds) {
  run_threads(3, [](tuttiComm_t comm, int rank) {
    StandInDriver::use(rank);
    for (const bool on_stream : {false, true}) {
      std::vector<std::unique_ptr<Values>> data;
      for (const std::size_t count : {10, 20, 30})
        data.push_back(std::make_unique<Values>(blocks_of(rank, 1, count), rank != 1));
      CallerStream caller(rank);
      const tuttiStream_t stream = on_stream && rank != 1 ? caller.get() : nullptr;
      ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
      for (const auto& values : data)
        EXPECT_EQ(
            tuttiAllReduce(values->data(), values->data(), values->get().size(), tuttiFloat32, tuttiSum, comm, stream),
            tuttiSuccess);
      EXPECT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError(comm);
      EXPECT_EQ(tuttiStreamSynchronize(caller.get()), tuttiSuccess) << tuttiGetLastError(comm);
      caller.drain();
      for (const auto& values : data) {
        std::vector<float> expected(values->get().size());
        for (std::size_t i = 0; i < expected.size(); ++i)
          expected[i] = value_of(0, 0, i) + value_of(1, 0, i) + value_of(2, 0, i);
        EXPECT_EQ(values->get(), expected);
      }
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
}

// The host has to run them. Refused before there is any effect: the capture goes on, and so does the communicator.
TEST_F(StagedStreams, CannotBeCaptured) {
  run_threads(2, [](tuttiComm_t comm, int rank) {
    StandInDriver::use(rank);
    Values data(std::vector<float>(1000, 1.0f), true, rank);
    {
      CallerStream stream(rank);
      const auto reduce = [&] {
        return tuttiAllReduce(data.data(), data.data(), 1000, tuttiFloat32, tuttiSum, comm, stream.get());
      };
      const auto expect_refusal = [](tuttiResult_t result, tuttiComm_t where) {
        EXPECT_EQ(result, tuttiInvalidUsage);
        const std::string text = tuttiGetLastError(where);
        EXPECT_NE(text.find("cannot be part of a CUDA graph, which runs without the host"), std::string::npos) << text;
      };
      stand_in().begin_capture(stream.cuda());
      expect_refusal(reduce(), comm);
      expect_refusal(tuttiBarrier(comm, stream.get()), comm);
      expect_refusal(tuttiSend(data.data(), 10, tuttiFloat32, 1 - rank, comm, stream.get()), comm);
      ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
      EXPECT_EQ(reduce(), tuttiSuccess);
      expect_refusal(tuttiGroupEnd(), nullptr);
      std::shared_ptr<const Graph> graph;
      const Status ended = stand_in().end_capture({stream.cuda()}, &graph);
      EXPECT_TRUE(ended.ok()) << ended.text();
      EXPECT_EQ(reduce(), tuttiSuccess) << tuttiGetLastError(comm);
      EXPECT_EQ(tuttiStreamSynchronize(stream.get()), tuttiSuccess) << tuttiGetLastError(comm);
    }
    EXPECT_TRUE(data.get() == std::vector<float>(1000, 2.0f));
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
}

}  // namespace
}  // namespace tutti::test

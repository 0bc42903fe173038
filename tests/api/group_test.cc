// Groups, splits and several ranks in one thread.
// Covers comm/queue/call_group.cc, comm/queue/operation.cc, comm/queue/packed_reduction.cc, comm/queue/queued_call.cc,
// comm/split.cc.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <tutti/tutti.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "support/ranks.h"
#include "transport/shm/sleep_word.h"

namespace tutti::test {
namespace {

TEST(Group, SeveralRanksInOneThreadJoinReduceAndLeave) {
  constexpr int kRanks = 4;
  constexpr std::size_t kCount = 100'003;
  tuttiComm_t comms[kRanks];
  ASSERT_EQ(tuttiCommInitAll(comms, kRanks, nullptr), tuttiSuccess) << tuttiGetLastError(nullptr);
  std::vector<std::vector<int>> buffers(kRanks, std::vector<int>(kCount));
  for (int rank = 0; rank < kRanks; ++rank) buffers[static_cast<std::size_t>(rank)].assign(kCount, rank + 1);
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  for (int rank = 0; rank < kRanks; ++rank) {
    int* const data = buffers[static_cast<std::size_t>(rank)].data();
    EXPECT_EQ(tuttiAllReduce(data, data, kCount, tuttiInt32, tuttiSum, comms[rank], nullptr), tuttiSuccess);
    EXPECT_EQ(tuttiBarrier(comms[rank], nullptr), tuttiSuccess);
    EXPECT_EQ(tuttiAllReduce(data, data, kCount, tuttiInt32, tuttiMax, comms[rank], nullptr), tuttiSuccess);
  }
  EXPECT_EQ(buffers[0][0], 1) << "nothing runs before the group ends";
  ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError(nullptr);
  for (const auto& buffer : buffers) EXPECT_EQ(buffer, std::vector<int>(kCount, 10));
  for (const tuttiComm_t comm : comms) EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
}

TEST(Group, JoinsOfSeveralRanksInOneThreadNest) {
  tuttiUniqueId id;
  ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  tuttiComm_t comms[3] = {};
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(tuttiCommInitRank(&comms[rank], 3, id, rank), tuttiSuccess);
  ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess);
  EXPECT_EQ(comms[0], nullptr) << "the inner end does nothing";
  ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError(nullptr);
  for (const tuttiComm_t comm : comms) EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
}

// Small all-reduces of a group are packed into one. On rank 1 an input is the output of the call before, which packing
// cannot serve: the results are those of calls one by one, whatever the operation, and everybody agrees on how.
TEST(Group, PackedCallsGiveWhatTheyGiveAlone) {
  for (const tuttiDataType_t type : {tuttiInt32, tuttiFloat32}) {
    for (const tuttiRedOp_t op : {tuttiSum, tuttiProd, tuttiMax, tuttiMin, tuttiAvg}) {
      for (const bool chained : {false, true}) {
        run_threads(3, [&](tuttiComm_t comm, int rank) {
          constexpr std::size_t kCounts[] = {5, 1000, 1};
          std::vector<std::uint32_t> in(1006), packed(3018), alone(3018);
          for (std::size_t i = 0; i < in.size(); ++i) {
            const float real = 1.1f * static_cast<float>(i % 7 + static_cast<std::size_t>(rank) + 1);
            std::memcpy(&in[i], &real, 4);
            if (type == tuttiInt32) in[i] = static_cast<std::uint32_t>(i % 5 + static_cast<std::size_t>(rank));
          }
          const auto run = [&](std::vector<std::uint32_t>* out) {
            for (std::size_t k = 0; k < 3; ++k) {
              const bool chains = chained && rank == 1 && k != 0;
              const std::uint32_t* const from = chains ? out->data() + (k - 1) * 1006 : in.data();
              EXPECT_EQ(tuttiAllReduce(from, out->data() + k * 1006, kCounts[k], type, op, comm, nullptr),
                        tuttiSuccess);
            }
          };
          run(&alone);
          ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
          run(&packed);
          ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError(nullptr);
          EXPECT_EQ(packed, alone) << type << " " << op << " " << chained;
          EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
        });
      }
    }
  }
}

TEST(Group, PackedCallsOfOtherCountsAreAMismatch) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  run_threads(2, [](tuttiComm_t comm, int rank) {
    std::vector<int> a(30), b(30);
    ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
    EXPECT_EQ(tuttiAllReduce(a.data(), a.data(), rank == 0 ? 10 : 20, tuttiInt32, tuttiSum, comm, nullptr),
              tuttiSuccess);
    EXPECT_EQ(tuttiAllReduce(b.data(), b.data(), rank == 0 ? 20 : 10, tuttiInt32, tuttiSum, comm, nullptr),
              tuttiSuccess);
    EXPECT_EQ(tuttiGroupEnd(), tuttiMismatch);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiMismatch);
  });
}

// What is in between on other communicators, and on which streams, is each rank's own affair.
TEST(Group, PackingDoesNotDependOnWhatOneRankDoes) {
  run_threads(2, [](tuttiComm_t comm, int rank) {
    tuttiComm_t other = nullptr;
    ASSERT_EQ(tuttiCommSplit(comm, 0, rank, &other, nullptr), tuttiSuccess);
    tuttiStream_t streams[2];
    for (tuttiStream_t& stream : streams) ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    for (int round = 0; round < 40; ++round) {
      int x[2] = {1, 2}, y[2] = {10, 20};
      const auto reduce = [&](int* value, tuttiComm_t on, tuttiStream_t stream) {
        EXPECT_EQ(tuttiAllReduce(value, value, 1, tuttiInt32, tuttiSum, on, stream), tuttiSuccess);
      };
      ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
      reduce(&x[0], comm, nullptr);
      if (rank == 0) reduce(&y[0], other, nullptr);
      reduce(&x[1], comm, nullptr);
      if (rank == 1) reduce(&y[0], other, nullptr);
      reduce(&y[1], other, nullptr);
      ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError(nullptr);
      int z[2] = {3, 4};
      ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
      reduce(&z[0], comm, streams[0]);
      reduce(&z[1], comm, streams[rank]);
      ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess);
      for (const tuttiStream_t stream : streams)
        ASSERT_EQ(tuttiStreamSynchronize(stream), tuttiSuccess) << tuttiGetLastError(nullptr);
      EXPECT_EQ(z[0] * 1000 + z[1], 6008);
      EXPECT_EQ(x[0] * 1000 + x[1], 2004);
      EXPECT_EQ(y[0] * 1000 + y[1], 20040);
    }
    for (const tuttiStream_t stream : streams) EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(other), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

TEST(Group, ARefusedCallRefusesTheGroup) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  tuttiComm_t comm;
  ASSERT_EQ(tuttiCommInitAll(&comm, 1, nullptr), tuttiSuccess);
  float in = 1, out = 0;
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  EXPECT_EQ(tuttiAllReduce(&in, &out, 1, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
  EXPECT_EQ(tuttiBroadcast(&in, &out, 1, tuttiFloat32, 9, comm, nullptr), tuttiInvalidArgument);
  EXPECT_EQ(tuttiGroupEnd(), tuttiInvalidArgument);
  EXPECT_EQ(out, 0) << "all or nothing";
  EXPECT_EQ(tuttiAllReduce(&in, &out, 1, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
}

TEST(Group, ACallOnNothingRefusesTheGroup) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  EXPECT_EQ(tuttiBarrier(nullptr, nullptr), tuttiInvalidArgument);
  EXPECT_EQ(tuttiGroupEnd(), tuttiInvalidArgument);
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.blocking = 9;
  tuttiComm_t comm;
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  EXPECT_EQ(tuttiCommInitRankConfig(&comm, 1, tuttiUniqueId{}, 0, &config), tuttiInvalidArgument);
  EXPECT_EQ(tuttiGroupEnd(), tuttiInvalidArgument);
}

// Rank 0 groups what the others call one by one: order within the communicator is call order either way.
TEST(Group, SplitsKeepTheirPlaceAmongTheCalls) {
  run_threads(3, [](tuttiComm_t comm, int rank) {
    int value = 1;
    tuttiComm_t parts[2] = {};
    if (rank == 0) {
      ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
    }
    EXPECT_EQ(tuttiAllReduce(&value, &value, 1, tuttiInt32, tuttiSum, comm, nullptr), tuttiSuccess);
    EXPECT_EQ(tuttiCommSplit(comm, 0, rank, &parts[0], nullptr), tuttiSuccess);
    EXPECT_EQ(tuttiCommSplit(comm, rank % 2, 0, &parts[1], nullptr), tuttiSuccess);
    EXPECT_EQ(tuttiAllReduce(&value, &value, 1, tuttiInt32, tuttiSum, comm, nullptr), tuttiSuccess);
    if (rank == 0) {
      ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError(nullptr);
    }
    EXPECT_EQ(value, 9);
    for (const tuttiComm_t part : parts) EXPECT_EQ(tuttiCommDestroy(part), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

TEST(Group, EndWithoutStartIsInvalidUsage) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  EXPECT_EQ(tuttiGroupEnd(), tuttiInvalidUsage);
}

TEST(Split, ColorsKeysAndTies) {
  constexpr int kRanks = 6;
  run_threads(kRanks, [](tuttiComm_t comm, int rank) {
    // Evens in reverse order, odds but rank 5 in the order of ties, rank 5 stays out.
    const int color = rank == 5 ? TUTTI_SPLIT_NOCOLOR : rank % 2;
    tuttiComm_t part = comm;
    ASSERT_EQ(tuttiCommSplit(comm, color, color == 0 ? -rank : 3, &part, nullptr), tuttiSuccess)
        << tuttiGetLastError(comm);
    if (rank == 5) {
      EXPECT_EQ(part, nullptr);
    } else {
      int size = 0, place = -1;
      EXPECT_EQ(tuttiCommCount(part, &size), tuttiSuccess);
      EXPECT_EQ(tuttiCommUserRank(part, &place), tuttiSuccess);
      EXPECT_EQ(size, color == 0 ? 3 : 2);
      EXPECT_EQ(place, color == 0 ? (4 - rank) / 2 : (rank - 1) / 2);
      int sum = rank;
      EXPECT_EQ(tuttiAllReduce(&sum, &sum, 1, tuttiInt32, tuttiSum, part, nullptr), tuttiSuccess);
      EXPECT_EQ(sum, color == 0 ? 6 : 4);
      EXPECT_EQ(tuttiCommDestroy(part), tuttiSuccess);
    }
    int all = 1;
    EXPECT_EQ(tuttiAllReduce(&all, &all, 1, tuttiInt32, tuttiSum, comm, nullptr), tuttiSuccess);
    EXPECT_EQ(all, 6);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

TEST(Split, InAGroupForRanksOfOneThread) {
  constexpr int kRanks = 4;
  tuttiComm_t comms[kRanks], parts[kRanks];
  ASSERT_EQ(tuttiCommInitAll(comms, kRanks, nullptr), tuttiSuccess);
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(tuttiCommSplit(comms[rank], rank / 2, 0, &parts[rank], nullptr), tuttiSuccess);
  ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError(nullptr);
  for (int rank = 0; rank < kRanks; ++rank) {
    int size = 0;
    EXPECT_EQ(tuttiCommCount(parts[rank], &size), tuttiSuccess);
    EXPECT_EQ(size, 2);
    EXPECT_EQ(tuttiCommDestroy(parts[rank]), tuttiSuccess);
  }
  for (const tuttiComm_t comm : comms) EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
}

/// How often the calling thread has gone to sleep.
long sleeps_of_this_thread() {
  rusage used{};
  ::getrusage(RUSAGE_THREAD, &used);
  return used.ru_nvcsw;
}

// If a group has one call, or one of its calls is left, its thread sleeps until something comes for that call.
TEST(Group, WhoWaitsForOneCallSleepsLikeACallAlone) {
  if (!ProcessBarrier::enroll()) GTEST_SKIP() << "without barriers that reach other processes all sleeps are short";
  run_threads(2, [](tuttiComm_t comm, int rank) {
    tuttiComm_t alone = nullptr;
    ASSERT_EQ(tuttiCommSplit(comm, rank, 0, &alone, nullptr), tuttiSuccess) << tuttiGetLastError(comm);
    for (const bool with_another : {false, true}) {
      int value = 1, own = 5;
      if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(500));
      const long before = sleeps_of_this_thread();
      ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
      EXPECT_EQ(tuttiAllReduce(&value, &value, 1, tuttiInt32, tuttiSum, comm, nullptr), tuttiSuccess);
      if (with_another) {
        EXPECT_EQ(tuttiAllReduce(&own, &own, 1, tuttiInt32, tuttiSum, alone, nullptr), tuttiSuccess);
      }
      ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError(nullptr);
      EXPECT_EQ(value, 2);
      EXPECT_EQ(own, 5);
      if (rank == 0) {
        EXPECT_LE(sleeps_of_this_thread() - before, 100);
      }
    }
    for (const tuttiComm_t one : {alone, comm}) EXPECT_EQ(tuttiCommDestroy(one), tuttiSuccess);
  });
}

}  // namespace
}  // namespace tutti::test

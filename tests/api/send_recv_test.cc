// Sends and receives: matching, order, groups, streams, and what happens when the other side is not there.
// Covers executor/point_to_point.cc, comm/api/api_transfers.cc, comm/queue/call_group.cc, comm/failure/wait_judge.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "support/ranks.h"
#include "support/texts.h"

namespace tutti::test {
namespace {

std::vector<int> numbers(std::size_t count, int first) {
  std::vector<int> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

const std::size_t kCounts[] = {0, 1, 5, 6, 7, 1000, 1025, 70'001, 300'007};

TEST(SendRecv, EverySizeInOrder) {
  run_threads(2, [](tuttiComm_t comm, int rank) {
    for (const std::size_t count : kCounts) {
      std::vector<int> data = numbers(count, static_cast<int>(count));
      if (rank == 0) {
        EXPECT_EQ(tuttiSend(data.data(), count, tuttiInt32, 1, comm, nullptr), tuttiSuccess);
      } else {
        std::vector<int> got(count, -1);
        EXPECT_EQ(tuttiRecv(got.data(), count, tuttiInt32, 0, comm, nullptr), tuttiSuccess) << tuttiGetLastError(comm);
        EXPECT_EQ(got, data);
      }
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
}

TEST(SendRecv, BothWaysAndToOneselfInAGroup) {
  run_threads(3, [](tuttiComm_t comm, int rank) {
    constexpr std::size_t kCount = 200'003;  // more than a link holds
    std::vector<std::vector<int>> in, out;
    for (int peer = 0; peer < 3; ++peer) {
      out.push_back(numbers(kCount, rank * 10 + peer));
      in.emplace_back(kCount, -1);
    }
    ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
    for (int peer = 0; peer < 3; ++peer) {
      EXPECT_EQ(tuttiSend(out[static_cast<std::size_t>(peer)].data(), kCount, tuttiInt32, peer, comm, nullptr),
                tuttiSuccess);
      EXPECT_EQ(tuttiRecv(in[static_cast<std::size_t>(peer)].data(), kCount, tuttiInt32, peer, comm, nullptr),
                tuttiSuccess);
    }
    ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError(nullptr);
    for (int peer = 0; peer < 3; ++peer)
      EXPECT_EQ(in[static_cast<std::size_t>(peer)], numbers(kCount, peer * 10 + rank));
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

TEST(SendRecv, ToOneselfNeverWaits) {
  run_threads(1, [](tuttiComm_t comm, int) {
    const std::vector<int> data = numbers(500'000, 7);
    EXPECT_EQ(tuttiSend(data.data(), data.size(), tuttiInt32, 0, comm, nullptr), tuttiSuccess);
    EXPECT_EQ(tuttiSendTag(data.data(), 1, tuttiInt32, 0, 9, comm, nullptr), tuttiSuccess);
    int one = 0, source = -5;
    EXPECT_EQ(tuttiRecvTag(&one, 1, tuttiInt32, TUTTI_ANY_SOURCE, 9, &source, comm, nullptr), tuttiSuccess);
    EXPECT_EQ(one, 7);
    EXPECT_EQ(source, 0);
    std::vector<int> got(data.size());
    EXPECT_EQ(tuttiRecv(got.data(), got.size(), tuttiInt32, 0, comm, nullptr), tuttiSuccess);
    EXPECT_EQ(got, data);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

// The second message is asked for first: the first one, larger than the link, is kept meanwhile.
TEST(SendRecv, TagsAreTakenInAnyOrder) {
  run_threads(2, [](tuttiComm_t comm, int rank) {
    const std::vector<int> large = numbers(900'000, 1), small = numbers(3, 2), other = numbers(40'000, 3);
    if (rank == 0) {
      EXPECT_EQ(tuttiSendTag(large.data(), large.size(), tuttiInt32, 1, 5, comm, nullptr), tuttiSuccess);
      EXPECT_EQ(tuttiSendTag(other.data(), other.size(), tuttiInt32, 1, 5, comm, nullptr), tuttiSuccess);
      EXPECT_EQ(tuttiSendTag(small.data(), small.size(), tuttiInt32, 1, -6, comm, nullptr), tuttiSuccess);
    } else {
      std::vector<int> first(3), second(900'000), third(40'000);
      EXPECT_EQ(tuttiRecvTag(first.data(), 3, tuttiInt32, 0, -6, nullptr, comm, nullptr), tuttiSuccess);
      EXPECT_EQ(first, small);
      EXPECT_EQ(tuttiRecvTag(second.data(), second.size(), tuttiInt32, 0, 5, nullptr, comm, nullptr), tuttiSuccess);
      EXPECT_EQ(second, large);
      EXPECT_EQ(tuttiRecvTag(third.data(), third.size(), tuttiInt32, 0, 5, nullptr, comm, nullptr), tuttiSuccess);
      EXPECT_EQ(third, other);
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

TEST(SendRecv, AnySourceTakesEverySenderOnceAndSaysWho) {
  constexpr int kRanks = 5;
  run_threads(kRanks, [](tuttiComm_t comm, int rank) {
    constexpr std::size_t kCount = 50'000;
    for (int round = 0; round < 10; ++round) {
      const std::vector<int> mine = numbers(kCount, rank * 100 + round);
      if (rank != 2) {
        EXPECT_EQ(tuttiSendTag(mine.data(), kCount, tuttiInt32, 2, round, comm, nullptr), tuttiSuccess);
        continue;
      }
      std::vector<bool> seen(kRanks);
      for (int k = 1; k < kRanks; ++k) {
        std::vector<int> got(kCount);
        int source = -1;
        ASSERT_EQ(tuttiRecvTag(got.data(), kCount, tuttiInt32, TUTTI_ANY_SOURCE, round, &source, comm, nullptr),
                  tuttiSuccess)
            << tuttiGetLastError(comm);
        ASSERT_TRUE(source >= 0 && source < kRanks && source != 2) << source;
        EXPECT_FALSE(seen[static_cast<std::size_t>(source)]);
        seen[static_cast<std::size_t>(source)] = true;
        EXPECT_EQ(got, numbers(kCount, source * 100 + round));
      }
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

// Ranks send and receive different things between equal collectives: the group orders them.
TEST(SendRecv, StandInAGroupWithCollectivesInAnyPlace) {
  run_threads(3, [](tuttiComm_t comm, int rank) {
    constexpr std::size_t kCount = 150'000;
    std::vector<int> sum(kCount, rank), data = numbers(kCount, rank);
    ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
    if (rank == 0) {
      EXPECT_EQ(tuttiSend(data.data(), kCount, tuttiInt32, 2, comm, nullptr), tuttiSuccess);
    }
    EXPECT_EQ(tuttiAllReduce(sum.data(), sum.data(), kCount, tuttiInt32, tuttiSum, comm, nullptr), tuttiSuccess);
    if (rank == 2) {
      EXPECT_EQ(tuttiRecv(data.data(), kCount, tuttiInt32, 0, comm, nullptr), tuttiSuccess);
    }
    ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError(nullptr);
    EXPECT_EQ(sum, std::vector<int>(kCount, 3));
    EXPECT_EQ(data, numbers(kCount, rank == 2 ? 0 : rank));
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

TEST(SendRecv, OnAStreamAloneAndInAGroup) {
  run_threads(2, [](tuttiComm_t comm, int rank) {
    constexpr std::size_t kCount = 100'000;
    tuttiStream_t one, two;
    ASSERT_EQ(tuttiStreamCreate(&one), tuttiSuccess);
    ASSERT_EQ(tuttiStreamCreate(&two), tuttiSuccess);
    const int peer = 1 - rank;
    std::vector<int> out = numbers(kCount, rank), in(kCount), more(kCount);
    ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
    EXPECT_EQ(tuttiSend(out.data(), kCount, tuttiInt32, peer, comm, one), tuttiSuccess);
    EXPECT_EQ(tuttiRecv(in.data(), kCount, tuttiInt32, peer, comm, one), tuttiSuccess);
    ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess);
    if (rank == 0) {
      EXPECT_EQ(tuttiSend(out.data(), kCount, tuttiInt32, peer, comm, one), tuttiSuccess);
    } else {
      EXPECT_EQ(tuttiRecv(more.data(), kCount, tuttiInt32, peer, comm, one), tuttiSuccess);
    }
    EXPECT_EQ(tuttiStreamSynchronize(one), tuttiSuccess);
    EXPECT_EQ(in, numbers(kCount, peer));
    if (rank == 1) {
      EXPECT_EQ(more, numbers(kCount, 0));
    }
    ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
    EXPECT_EQ(tuttiSend(out.data(), 1, tuttiInt32, peer, comm, one), tuttiSuccess);
    EXPECT_EQ(tuttiRecv(in.data(), 1, tuttiInt32, peer, comm, two), tuttiSuccess);
    EXPECT_EQ(tuttiGroupEnd(), tuttiInvalidUsage) << "one batch cannot be in the order of two streams";
    EXPECT_EQ(tuttiStreamDestroy(one), tuttiSuccess);
    EXPECT_EQ(tuttiStreamDestroy(two), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

TEST(SendRecv, WhatDoesNotFitIsAMismatchThatNamesBoth) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  run_threads(2, [](tuttiComm_t comm, int rank) {
    std::vector<float> data(100);
    if (rank == 0) {
      EXPECT_EQ(tuttiSend(data.data(), 100, tuttiFloat32, 1, comm, nullptr), tuttiSuccess);
      EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiMismatch);
    } else {
      EXPECT_EQ(tuttiRecv(data.data(), 99, tuttiFloat32, 0, comm, nullptr), tuttiMismatch);
    }
    const std::string text = tuttiGetLastError(comm);
    for (const char* word : {"rank 0 sent 100 float32", "rank 1 receives 99 float32"})
      EXPECT_TRUE(contains(text, word)) << text;
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiMismatch);
  });
}

// What a rank keeps until it receives it is bounded, and nothing is made ready for more than has come: an announcement
// of 64 TiB costs nothing.
TEST(SendRecv, WhatIsKeptIsBoundedAndItsSenderNamed) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const ScopedSetting bound("TUTTI_UNEXPECTED_BYTES", "1M");
  for (const std::size_t bytes : {std::size_t{4} << 20, std::size_t{1} << 46}) {
    run_threads(2, [bytes](tuttiComm_t comm, int rank) {
      char byte = 0;
      const std::vector<char> begin(std::size_t{4} << 20);  // more of the message than the link takes
      if (rank == 0) {
        EXPECT_NE(tuttiSendTag(begin.data(), bytes, tuttiInt8, 1, 5, comm, nullptr), tuttiSuccess);
      } else {
        EXPECT_EQ(tuttiRecvTag(&byte, 1, tuttiInt8, 0, 6, nullptr, comm, nullptr), tuttiMismatch);
        const std::string text = tuttiGetLastError(comm);
        EXPECT_TRUE(contains(text, "rank 0 has sent " + std::to_string(bytes) + " more")) << text;
        EXPECT_TRUE(contains(text, "TUTTI_UNEXPECTED_BYTES=1048576")) << text;
      }
      EXPECT_NE(tuttiCommDestroy(comm), tuttiSuccess);
    });
  }
}

TEST(SendRecv, AsMuchAsTheBoundIsKept) {
  const ScopedSetting bound("TUTTI_UNEXPECTED_BYTES", "1M");
  run_threads(2, [](tuttiComm_t comm, int rank) {
    constexpr std::size_t kCount = ((std::size_t{1} << 20) - 256) / sizeof(int);  // 256: what a message takes besides
    for (int round = 0; round < 3; ++round) {
      std::vector<int> data = numbers(kCount, rank + round);
      int one = 7;
      if (rank == 0) {
        EXPECT_EQ(tuttiSendTag(data.data(), kCount, tuttiInt32, 1, 5, comm, nullptr), tuttiSuccess);
        EXPECT_EQ(tuttiSendTag(&one, 1, tuttiInt32, 1, 6, comm, nullptr), tuttiSuccess);
      } else {
        EXPECT_EQ(tuttiRecvTag(&one, 1, tuttiInt32, 0, 6, nullptr, comm, nullptr), tuttiSuccess);
        EXPECT_EQ(tuttiRecvTag(data.data(), kCount, tuttiInt32, 0, 5, nullptr, comm, nullptr), tuttiSuccess);
        EXPECT_EQ(data, numbers(kCount, round));
      }
      EXPECT_EQ(one, 7);
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

TEST(SendRecv, BadArgumentsLeaveTheCommunicatorUsable) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  run_threads(1, [](tuttiComm_t comm, int) {
    int value = 1;
    EXPECT_EQ(tuttiSend(&value, 1, tuttiInt32, 1, comm, nullptr), tuttiInvalidArgument);
    EXPECT_EQ(tuttiSend(&value, 1, tuttiInt32, TUTTI_ANY_SOURCE, comm, nullptr), tuttiInvalidArgument);
    EXPECT_EQ(tuttiRecv(&value, 1, tuttiInt32, -2, comm, nullptr), tuttiInvalidArgument);
    EXPECT_EQ(tuttiRecv(nullptr, 1, tuttiInt32, 0, comm, nullptr), tuttiInvalidArgument);
    EXPECT_EQ(tuttiSend(&value, 1, static_cast<tuttiDataType_t>(15), 0, comm, nullptr), tuttiInvalidArgument);
    EXPECT_EQ(tuttiSend(&value, SIZE_MAX / 2, tuttiInt32, 0, comm, nullptr), tuttiInvalidArgument);
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

// Rank 0 waits for rank 1, which waits for rank 2, which does nothing: rank 2 is named on both.
TEST(SendRecv, ATimeoutNamesTheRankAtTheEndOfTheChain) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const ScopedSetting timeout("TUTTI_TIMEOUT", "3");
  Meeting callers(2);
  std::atomic<int> ended{0};
  run_threads(3, [&](tuttiComm_t comm, int rank) {
    int value = 0;
    if (rank == 2) {
      await([&] { return ended.load() >= 2; }, "the others' ends");
      EXPECT_NE(tuttiBarrier(comm, nullptr), tuttiSuccess);
    } else {
      callers.arrive_and_wait();
      const tuttiResult_t result =
          rank == 0 ? tuttiBarrier(comm, nullptr) : tuttiRecvTag(&value, 1, tuttiInt32, 2, 7, nullptr, comm, nullptr);
      ended.fetch_add(1);
      EXPECT_EQ(result, tuttiTimeout);
      EXPECT_TRUE(contains(tuttiGetLastError(comm), "rank 2 has not")) << tuttiGetLastError(comm);
    }
    EXPECT_NE(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

TEST(SendRecv, AKilledSenderIsNamedAndAFinishedOneIsUsedFirst) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  Processes ranks(3, [](tuttiComm_t comm, int rank, Shared& shared) {
    std::vector<int> data = numbers(50'000, rank);
    if (rank == 1) {
      EXPECT_EQ(tuttiSend(data.data(), data.size(), tuttiInt32, 0, comm, nullptr), tuttiSuccess);
      shared.step[1].store(1);
      await_kill();
    }
    if (rank == 2) {
      shared.wait_for_step(0, 1);
      (void)tuttiCommAbort(comm);
      return;
    }
    shared.wait_for_step(1, 2);  // rank 1 is dead by now
    std::vector<int> got(50'000);
    EXPECT_EQ(tuttiRecv(got.data(), got.size(), tuttiInt32, 1, comm, nullptr), tuttiSuccess) << tuttiGetLastError(comm);
    EXPECT_EQ(got, numbers(50'000, 1));
    EXPECT_EQ(tuttiRecv(got.data(), 1, tuttiInt32, 1, comm, nullptr), tuttiRemoteError);
    EXPECT_TRUE(contains(tuttiGetLastError(comm), "rank 1 ")) << tuttiGetLastError(comm);
    shared.step[0].store(1);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiRemoteError);
  });
  ranks.shared().wait_for_step(1, 1);
  ranks.signal(1, SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(ranks.wait(1)));
  ranks.shared().step[1].store(2);
  EXPECT_EQ(ranks.wait(0), 0);
  EXPECT_EQ(ranks.wait(2), 0);
}

}  // namespace
}  // namespace tutti::test

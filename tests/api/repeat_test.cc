// A small call made again is bound to what the one before was bound to: nothing of what changed may get lost.
// Covers comm/communicator.cc, comm/call_driver.cc, comm/launch_binder.cc, collectives/choice/plan_cache.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <functional>
#include <string>
#include <vector>

#include "support/ranks.h"

namespace tutti::test {
namespace {

constexpr int kRepeatCount = 6;

/// One rank's call; buffers `from` and `to` of kRepeatCount floats for each of two ranks.
using OneCall = std::function<tuttiResult_t(const float* from, float* to, tuttiComm_t comm)>;

struct NamedCall {
  const char* name;
  OneCall make;
  std::function<float(int rank, int at)> expected;  ///< where from[i] = 10 * (rank + 1) + i; at counts in `to`
};

float value(int rank, int i) { return static_cast<float>(10 * (rank + 1) + i); }

tuttiResult_t all_reduce(const float* from, float* to, std::size_t count, tuttiRedOp_t op, tuttiComm_t comm) {
  return tuttiAllReduce(from, to, count, tuttiFloat32, op, comm, nullptr);
}

/// Calls that differ from a sum of kRepeatCount floats in one thing each.
std::vector<NamedCall> calls() {
  const auto sum = [](int, int i) { return value(0, i) + value(1, i); };
  return {
      {"sum", [](auto from, auto to, auto comm) { return all_reduce(from, to, kRepeatCount, tuttiSum, comm); }, sum},
      {"max", [](auto from, auto to, auto comm) { return all_reduce(from, to, kRepeatCount, tuttiMax, comm); },
       [](int, int i) { return value(1, i); }},
      {"fewer",
       [](auto from, auto to, auto comm) {
         to[kRepeatCount - 1] = value(0, kRepeatCount - 1) + value(1, kRepeatCount - 1);
         return all_reduce(from, to, kRepeatCount - 1, tuttiSum, comm);
       },
       sum},
      {"as_integers",  // positive floats compare like their bits
       [](auto from, auto to, auto comm) {
         return tuttiAllReduce(from, to, kRepeatCount, tuttiInt32, tuttiMin, comm, nullptr);
       },
       [](int, int i) { return value(0, i); }},
      {"from_1",
       [](auto from, auto to, auto comm) {
         return tuttiBroadcast(from, to, kRepeatCount, tuttiFloat32, 1, comm, nullptr);
       },
       [](int, int i) { return value(1, i); }},
      {"from_0",
       [](auto from, auto to, auto comm) {
         return tuttiBroadcast(from, to, kRepeatCount, tuttiFloat32, 0, comm, nullptr);
       },
       [](int, int i) { return value(0, i); }},
      {"as_halves",
       [](auto from, auto to, auto comm) {
         return tuttiAllReduceWire(from, to, kRepeatCount, tuttiFloat32, tuttiSum, tuttiFloat16, comm, nullptr);
       },
       sum},
  };
}

class Repeats : public ::testing::Test {
 protected:
  void make(const NamedCall& call, tuttiComm_t comm, int rank, std::vector<float>* from, std::vector<float>* to) {
    for (int i = 0; i < kRepeatCount; ++i) (*from)[static_cast<std::size_t>(i)] = value(rank, i);
    ASSERT_EQ(call.make(from->data(), to->data(), comm), tuttiSuccess) << call.name << tuttiGetLastError(comm);
    for (int i = 0; i < kRepeatCount; ++i)
      ASSERT_EQ((*to)[static_cast<std::size_t>(i)], call.expected(rank, i)) << call.name;
  }
  const ScopedSetting log_{"TUTTI_LOG", "error"};
};

TEST_F(Repeats, EveryChangeIsSeen) {
  run_threads(2, [this](tuttiComm_t comm, int rank) {
    const std::vector<NamedCall> all = calls();
    std::vector<float> from(kRepeatCount), to(kRepeatCount);
    for (const NamedCall& before : all)
      for (const NamedCall& call : all) {
        for (int i = 0; i < 2; ++i) make(before, comm, rank, &from, &to);
        for (int i = 0; i < 2; ++i) make(call, comm, rank, &from, &to);
      }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

TEST_F(Repeats, BuffersMayChange) {
  run_threads(2, [](tuttiComm_t comm, int rank) {
    for (int i = 0; i < 20; ++i) {
      std::vector<float> from(kRepeatCount, value(rank, i)), to(kRepeatCount);
      float* const in_place = i % 3 == 0 ? from.data() : to.data();
      ASSERT_EQ(all_reduce(from.data(), in_place, kRepeatCount, tuttiSum, comm), tuttiSuccess);
      ASSERT_EQ(in_place[kRepeatCount - 1], value(0, i) + value(1, i)) << i;
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

// More roots than the plan cache has places for, and calls between with another size.
TEST_F(Repeats, RootsMayTakeTurns) {
  constexpr int kRanks = 10;
  run_threads(kRanks, [](tuttiComm_t comm, int rank) {
    std::vector<float> from(kRanks), to(kRanks);
    for (int i = 0; i < 3 * kRanks; ++i) {
      const int root = i % kRanks;
      for (int k = 0; k < kRanks; ++k) from[static_cast<std::size_t>(k)] = value(rank, k);
      ASSERT_EQ(tuttiScatter(from.data(), to.data(), 1, tuttiFloat32, root, comm, nullptr), tuttiSuccess);
      ASSERT_EQ(to[0], value(root, rank)) << root;
      const std::size_t count = i % 7 == 0 ? 2 : 3;
      ASSERT_EQ(tuttiReduce(from.data(), to.data(), count, tuttiFloat32, tuttiMax, root, comm, nullptr), tuttiSuccess);
      if (rank == root) {
        ASSERT_EQ(to[count - 1], value(kRanks - 1, static_cast<int>(count) - 1)) << root;
      }
    }
    EXPECT_EQ(tuttiReduce(from.data(), to.data(), 3, tuttiFloat32, tuttiMax, kRanks, comm, nullptr),
              tuttiInvalidArgument);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

TEST_F(Repeats, BuffersAreCheckedAgain) {
  tuttiComm_t comm = nullptr;
  ASSERT_EQ(tuttiCommInitAll(&comm, 1, nullptr), tuttiSuccess);
  float data[2 * kRepeatCount] = {};
  const auto result = [&](const float* from, float* to) {
    EXPECT_EQ(all_reduce(data, data + kRepeatCount, kRepeatCount, tuttiSum, comm), tuttiSuccess);
    return all_reduce(from, to, kRepeatCount, tuttiSum, comm);
  };
  EXPECT_EQ(result(nullptr, data), tuttiInvalidArgument);
  EXPECT_EQ(result(data, nullptr), tuttiInvalidArgument);
  EXPECT_EQ(result(data, data + 1), tuttiInvalidArgument);
  EXPECT_EQ(result(data, data), tuttiSuccess);
  EXPECT_EQ(tuttiCommFinalize(comm), tuttiSuccess);
  EXPECT_EQ(all_reduce(data, data, kRepeatCount, tuttiSum, comm), tuttiInvalidUsage) << "after finalize";
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
}

// Where roots take turns, what was checked for one root is not checked for the other.
TEST_F(Repeats, BuffersAreCheckedForTheirRoot) {
  run_threads(2, [](tuttiComm_t comm, int rank) {
    float from[kRepeatCount] = {}, other[kRepeatCount] = {}, to[kRepeatCount] = {};
    const auto reduce = [&](const float* send, float* recv, int root) {
      return tuttiReduce(send, recv, kRepeatCount, tuttiFloat32, tuttiSum, root, comm, nullptr);
    };
    float* const none = rank == 1 ? nullptr : to;
    ASSERT_EQ(reduce(other, to, 1), tuttiSuccess);
    ASSERT_EQ(reduce(from, none, 0), tuttiSuccess);
    ASSERT_EQ(reduce(other, to, 1), tuttiSuccess);
    if (rank == 1) {
      EXPECT_EQ(reduce(from, nullptr, 1), tuttiInvalidArgument);
    }
    ASSERT_EQ(reduce(from, to, 1), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

/// A question about a plan, a message, or a call on a stream.
void between(int turn, tuttiComm_t comm, int rank, tuttiStream_t stream, std::vector<float>* buffer) {
  char text[128];
  switch (turn % 4) {
    case 1:
      ASSERT_EQ(tuttiCommGetInfo(comm, "algorithm:all_gather:8", text, sizeof text), tuttiSuccess);
      break;
    case 2:
      ASSERT_EQ(rank == 0 ? tuttiSend(buffer->data(), 1, tuttiFloat32, 1, comm, nullptr)
                          : tuttiRecv(buffer->data(), 1, tuttiFloat32, 0, comm, nullptr),
                tuttiSuccess);
      break;
    case 3:
      ASSERT_EQ(tuttiAllReduce(buffer->data(), buffer->data(), kRepeatCount, tuttiFloat32, tuttiSum, comm, stream),
                tuttiSuccess);
      if (turn == 3) {  // else the next call meets it running
        ASSERT_EQ(tuttiStreamSynchronize(stream), tuttiSuccess);
      }
      break;
    default:
      break;
  }
}

// What comes between two calls that are alike changes what they are bound to.
TEST_F(Repeats, OtherCallsMayComeBetween) {
  run_threads(2, [this](tuttiComm_t comm, int rank) {
    const NamedCall sum = calls().front();
    std::vector<float> from(kRepeatCount), to(kRepeatCount), apart(kRepeatCount);
    tuttiStream_t stream = nullptr;
    ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    for (int i = 0; i < 12; ++i) {
      make(sum, comm, rank, &from, &to);
      make(sum, comm, rank, &from, &to);
      between(i, comm, rank, stream, &apart);
    }
    ASSERT_EQ(tuttiStreamSynchronize(stream), tuttiSuccess);
    EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

// One rank repeats where the other does something else: found out as ever.
TEST_F(Repeats, ADifferenceBetweenRanksIsAMismatch) {
  const ScopedSetting quiet("TUTTI_LOG_FILE", "/dev/null");
  run_threads(2, [this](tuttiComm_t comm, int rank) {
    const NamedCall sum = calls().front();
    std::vector<float> from(kRepeatCount), to(kRepeatCount);
    for (int i = 0; i < 3; ++i) make(sum, comm, rank, &from, &to);
    EXPECT_EQ(all_reduce(from.data(), to.data(), kRepeatCount, rank == 0 ? tuttiSum : tuttiMax, comm), tuttiMismatch);
    EXPECT_NE(std::string(tuttiGetLastError(comm)).find("max"), std::string::npos) << tuttiGetLastError(comm);
    tuttiCommAbort(comm);
  });
}

}  // namespace
}  // namespace tutti::test

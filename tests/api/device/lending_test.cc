// Large messages that ranks of other processes read where they lie: when they do, what they map, and when that ends.
// Covers transport/device/device_lending.cc, transport/device/deferred_unmaps.cc,
// transport/device/device_allocation.cc, transport/device/device_fabric.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "support/device/caller_stream.h"
#include "support/device/device_family.h"
#include "support/device/device_processes.h"
#include "transport/device/device_link.h"

namespace tutti::test {
namespace {

/// Elements of a block that is lent.
constexpr std::size_t kLarge = 50'000;

/// An input and, after it, the output.
class Buffers : public DeviceVector {
 public:
  explicit Buffers(float value) : DeviceVector(2 * kLarge, value) {}
  void reduce(tuttiComm_t comm) {
    EXPECT_EQ(tuttiAllReduce(data(), data() + kLarge, kLarge, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess)
        << tuttiGetLastError(comm);
  }
  /// Whether the messages of a call lie in them.
  bool are_lent(tuttiComm_t comm) {
    const std::size_t before = stand_in().lending_launches();
    reduce(comm);
    return stand_in().lending_launches() != before;
  }
  bool hold_the_sum(float value) {
    return std::all_of(data() + kLarge, data() + 2 * kLarge, [value](float one) { return one == value; });
  }
};

/// All ranks are here: those of processes that have one each.
void meet(Shared& shared, int rank, int ranks, int step) {
  shared.step[rank] = step;
  for (int peer = 0; peer < ranks; ++peer) shared.wait_for_step(peer, step);
}

struct Lent {
  const char* name;
  DeviceLayout layout;
};
class Lending : public ::testing::TestWithParam<Lent> {};

TEST_P(Lending, IsExact) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "cuda");
  const DeviceLayout& layout = GetParam().layout;
  const int ranks = layout.ranks();
  DeviceProcesses processes(layout, [ranks](tuttiComm_t comm, int rank, Shared& shared) {
    ASSERT_NE(comm, nullptr) << shared.text[rank];
    {
      const std::size_t before = stand_in().lending_launches();
      DeviceFamily family(rank, ranks, stand_in().current_device(), kLarge + 1);
      CallerStream stream(stand_in().current_device());
      for (std::uint32_t seed = 1; seed < 5; ++seed) {
        family.fill(stream.cuda(), seed);
        family.call(comm, stream.get());
        EXPECT_EQ(tuttiStreamSynchronize(stream.get()), tuttiSuccess) << tuttiGetLastError(comm);
        family.check(seed);
      }
      EXPECT_GT(stand_in().lending_launches(), before);
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
  processes.expect_success();
}
INSTANTIATE_TEST_SUITE_P(Layouts, Lending,
                         ::testing::Values(Lent{"TwoOfOne", {2, 1, 1}}, Lent{"ThreeOfOne", {3, 1, 1}},
                                           Lent{"TwoOfTwo", {2, 2, 2}},
                                           Lent{"ThreeOfTwoInTurn", {3, 2, 1, false, true}}),
                         [](const auto& info) { return info.param.name; });

/// A rank of one GPU and process each; what is left of the stand-in's memory at the end.
void run(int ranks, const std::function<void(tuttiComm_t comm, int rank, Shared& shared)>& body) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "cuda");
  DeviceProcesses processes({ranks, 1, 1}, [&](tuttiComm_t comm, int rank, Shared& shared) {
    ASSERT_NE(comm, nullptr) << shared.text[rank];
    body(comm, rank, shared);
    EXPECT_EQ(tuttiCommFinalize(comm), tuttiSuccess) << tuttiGetLastError(comm);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
    EXPECT_EQ(stand_in().mappings(), 0u);
  });
  processes.expect_success();
}

/// Calls that all ranks make together, each on its own buffers.
class Rounds {
 public:
  Rounds(tuttiComm_t comm, int rank, int ranks, Shared& shared)
      : comm_(comm), rank_(rank), ranks_(ranks), shared_(shared) {}
  void meet() { test::meet(shared_, rank_, ranks_, ++step_); }
  /// Whether the last of `calls` lends: the first offers the memory, the next one maps it, the third one answers.
  bool lends(Buffers& buffers, int calls = 4) {
    bool lent = false;
    for (int i = 0; i < calls; ++i, meet()) lent = buffers.are_lent(comm_);
    return lent;
  }
  /// What each process does now and then: it may wait for kernels.
  void allocate() {
    { const DeviceVector other(10, 0.0f); }
    meet();
  }

 private:
  tuttiComm_t comm_;
  int rank_, ranks_;
  Shared& shared_;
  int step_ = 0;
};

TEST(LentMemory, IsMappedByTheCallsThatFollow) {
  run(3, [](tuttiComm_t comm, int rank, Shared& shared) {
    Rounds rounds(comm, rank, 3, shared);
    const std::size_t arenas = stand_in().mappings();
    Buffers data(1.0f);
    EXPECT_FALSE(rounds.lends(data, 1));
    (void)rounds.lends(data, 1);
    EXPECT_EQ(stand_in().mappings(), arenas + 2);
    const std::size_t waits = stand_in().waits_for_kernels();
    EXPECT_TRUE(rounds.lends(data));
    EXPECT_TRUE(data.hold_the_sum(3.0f));
    EXPECT_EQ(stand_in().mappings(), arenas + 2) << "once";
    EXPECT_EQ(stand_in().waits_for_kernels(), waits);
  });
}

/// Memory that the caller allocated: an input and, after it, the output.
float* allocate(float value) {
  void* memory = nullptr;
  EXPECT_TRUE(stand_in().allocate(0, Bytes{2 * kLarge * sizeof(float)}, &memory).ok());
  std::fill_n(static_cast<float*>(memory), kLarge, value);
  return static_cast<float*>(memory);
}
void* enlist(tuttiComm_t comm, float* memory) {
  void* handle = nullptr;
  EXPECT_EQ(tuttiCommRegister(comm, memory, 2 * kLarge * sizeof(float), &handle), tuttiSuccess);
  return handle;
}
void call(tuttiComm_t comm, float* memory, tuttiStream_t stream = nullptr) {
  EXPECT_EQ(tuttiAllReduce(memory, memory + kLarge, kLarge, tuttiFloat32, tuttiSum, comm, stream), tuttiSuccess)
      << tuttiGetLastError(comm);
}

TEST(LentMemory, IsWhatIsRegistered) {
  run(2, [](tuttiComm_t comm, int rank, Shared& shared) {
    Rounds rounds(comm, rank, 2, shared);
    const std::size_t arenas = stand_in().mappings();
    float* const memory = allocate(1.0f);
    const auto lends = [&](int calls) {
      const std::size_t before = stand_in().lending_launches();
      for (int i = 0; i < calls; ++i, rounds.meet()) call(comm, memory);
      return stand_in().lending_launches() != before;
    };
    EXPECT_FALSE(lends(5)) << "nobody said that it may be mapped";
    void* const handle = enlist(comm, memory);
    EXPECT_TRUE(lends(4));
    EXPECT_EQ(stand_in().mappings(), arenas + 1);
    const std::size_t waits = stand_in().waits_for_kernels();
    EXPECT_EQ(tuttiCommDeregister(comm, handle), tuttiSuccess);
    rounds.meet();
    EXPECT_FALSE(lends(3));
    EXPECT_EQ(stand_in().waits_for_kernels(), waits) << "no call closes it";
    rounds.allocate();
    EXPECT_EQ(stand_in().mappings(), arenas);
    EXPECT_TRUE(stand_in().release(0, memory).ok());
  });
}

// Call N stands after work of rank 0's own while its buffer is deregistered and another one takes its place.
TEST(LentMemory, OfACallThatHasNotBegunKeepsItsPlace) {
  run(2, [](tuttiComm_t comm, int rank, Shared& shared) {
    Rounds rounds(comm, rank, 2, shared);
    float *const first = allocate(1.0f), *const second = allocate(100.0f);
    void* const handle = enlist(comm, first);
    (void)enlist(comm, second);
    for (int i = 0; i < 4; ++i, rounds.meet()) call(comm, first);
    CallerStream stream;
    std::atomic<bool> go{false};
    if (rank == 0) {
      stream.hold_until(go);
      call(comm, first, stream.get());
      EXPECT_EQ(tuttiCommDeregister(comm, handle), tuttiSuccess);
    }
    rounds.meet();
    if (rank == 1) call(comm, first, stream.get());
    rounds.meet();
    if (rank == 0) call(comm, second, stream.get());
    rounds.meet();
    if (rank == 1) call(comm, second, stream.get());
    rounds.meet();
    go = true;
    EXPECT_EQ(tuttiStreamSynchronize(stream.get()), tuttiSuccess) << tuttiGetLastError(comm);
    EXPECT_EQ(first[kLarge], 2.0f);
    EXPECT_EQ(first[2 * kLarge - 1], 2.0f);
    EXPECT_EQ(second[kLarge], 200.0f);
    rounds.meet();
  });
}

// Another process's two ranks share a device's queues: a call that waited for kernels would wait for one that waits for
// this call.
TEST(LentMemory, IsMappedBesideKernelsThatWait) {
  const ScopedSetting transport("TUTTI_TRANSPORT", "cuda");
  DeviceLayout layout{2, 2, 1};
  layout.before = [](int) { stand_in().set_connections(8); };
  DeviceProcesses processes(layout, [](tuttiComm_t comm, int rank, Shared& shared) {
    ASSERT_NE(comm, nullptr) << shared.text[rank];
    {
      std::vector<std::unique_ptr<Buffers>> all;
      for (int i = 0; i < 12; ++i) all.push_back(std::make_unique<Buffers>(1.0f));
      meet(shared, rank, 4, 1);
      for (auto& data : all) {
        if (rank % 2 == 0) ::usleep(30'000);  // the other one's kernel waits
        data->reduce(comm);
        EXPECT_TRUE(data->hold_the_sum(4.0f));
      }
      meet(shared, rank, 4, 2);
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
  processes.expect_success();
}

// A peer may have it mapped when it is freed: it is there until the peer has closed it, and not for ever.
TEST(LentMemory, IsReleasedOnceNobodyReadsIt) {
  run(2, [](tuttiComm_t comm, int rank, Shared& shared) {
    Rounds rounds(comm, rank, 2, shared);
    const std::size_t allocations = stand_in().allocations();
    {
      Buffers data(1.0f);
      EXPECT_TRUE(rounds.lends(data));
    }
    EXPECT_EQ(stand_in().allocations(), allocations + 2) << "its own, and the peer's";
    Buffers next(1.0f);
    (void)rounds.lends(next, 2);  // says that the other is not lent any more; hears that the peer's is not
    rounds.allocate();            // closes that
    (void)rounds.lends(next, 1);  // hears that its own is closed
    rounds.allocate();            // releases it
    EXPECT_EQ(stand_in().allocations(), allocations + 2) << "the new ones, of both";
    EXPECT_TRUE(rounds.lends(next));
  });
}

// Where memory was freed the next one often lies; a driver maps it only when the mapping of the old one is closed.
TEST(LentMemory, MayLieWhereOtherMemoryLay) {
  run(2, [](tuttiComm_t comm, int rank, Shared& shared) {
    Rounds rounds(comm, rank, 2, shared);
    float* const first = allocate(1.0f);
    void* handle = enlist(comm, first);
    for (int i = 0; i < 4; ++i, rounds.meet()) call(comm, first);
    EXPECT_EQ(tuttiCommDeregister(comm, handle), tuttiSuccess);
    EXPECT_TRUE(stand_in().release(0, first).ok());
    float* const second = allocate(2.0f);
    EXPECT_EQ(second, first);
    handle = enlist(comm, second);
    const std::size_t before = stand_in().lending_launches();
    for (int i = 0; i < 6; ++i, rounds.meet()) call(comm, second);
    EXPECT_EQ(stand_in().lending_launches(), before) << "the peer has the old one mapped";
    rounds.allocate();
    for (int i = 0; i < 4; ++i, rounds.meet()) call(comm, second);
    EXPECT_GT(stand_in().lending_launches(), before);
    EXPECT_EQ(second[kLarge], 4.0f);
    EXPECT_TRUE(stand_in().release(0, second).ok());
  });
}

TEST(LentMemory, ThatAPeerCannotMapGoesThroughSlots) {
  run(2, [](tuttiComm_t comm, int rank, Shared& shared) {
    Rounds rounds(comm, rank, 2, shared);
    Buffers data(1.0f);
    if (rank == 1) stand_in().fail_next("open_memory", "it is too far away");
    rounds.meet();
    EXPECT_EQ(rounds.lends(data, 6), rank == 1) << "rank 0 maps what rank 1 lends";
    EXPECT_TRUE(data.hold_the_sum(2.0f));
  });
}

// More than can be lent at a time, one after the other and again.
TEST(LentMemory, MayBeOfManyAllocations) {
  run(2, [](tuttiComm_t comm, int rank, Shared& shared) {
    for (int round = 0; round < 3; ++round) {
      std::vector<std::unique_ptr<Buffers>> all;
      for (std::uint32_t i = 0; i < kLentRegions + 3; ++i)
        all.push_back(std::make_unique<Buffers>(static_cast<float>(i)));
      std::size_t lent = 0;
      for (int again = 0; again < 4; ++again) {
        lent = 0;
        for (auto& data : all) lent += data->are_lent(comm) ? 1 : 0;
      }
      EXPECT_LE(lent, std::size_t{kLentRegions});
      if (round == 0) {
        EXPECT_GT(lent, 0u);
      }
      for (std::size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(all[i]->hold_the_sum(static_cast<float>(i) * 2)) << i;
    }
    meet(shared, rank, 2, 1);
  });
}

}  // namespace
}  // namespace tutti::test

// Large messages that ranks of other processes read where they lie: when they do, what they map, and when that ends.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "device/caller_stream.h"
#include "device/device_family.h"
#include "device/device_processes.h"
#include "transport/device_link.h"

namespace tutti::test {
namespace {

/// Elements of a block that is lent.
constexpr std::size_t kLarge = 50'000;

/// An input and, behind it, the output.
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
  DeviceProcesses processes(layout, [&layout, ranks](tuttiComm_t comm, int rank, Shared& shared) {
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

// The first call offers the memory, the peers' next one maps it: who is ahead sees it one call later.
TEST(LentMemory, IsMappedByTheCallsThatFollow) {
  run(3, [](tuttiComm_t comm, int rank, Shared& shared) {
    const std::size_t arenas = stand_in().mappings();
    Buffers data(1.0f);
    EXPECT_FALSE(data.are_lent(comm));
    meet(shared, rank, 3, 1);
    (void)data.are_lent(comm);
    EXPECT_EQ(stand_in().mappings(), arenas + 2);
    meet(shared, rank, 3, 2);
    EXPECT_TRUE(data.are_lent(comm));
    EXPECT_TRUE(data.are_lent(comm));
    EXPECT_EQ(stand_in().mappings(), arenas + 2) << "once";
    meet(shared, rank, 3, 3);
  });
}

TEST(LentMemory, IsWhatIsRegistered) {
  run(2, [](tuttiComm_t comm, int rank, Shared& shared) {
    const std::size_t arenas = stand_in().mappings();
    void* memory = nullptr;  // the caller's own
    ASSERT_TRUE(stand_in().allocate(0, Bytes{2 * kLarge * sizeof(float)}, &memory).ok());
    auto* const values = static_cast<float*>(memory);
    const auto call = [&] {
      const std::size_t before = stand_in().lending_launches();
      EXPECT_EQ(tuttiAllReduce(values, values + kLarge, kLarge, tuttiFloat32, tuttiMax, comm, nullptr), tuttiSuccess);
      meet(shared, rank, 2, shared.step[rank] + 1);
      return stand_in().lending_launches() != before;
    };
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(call()) << "nobody said that it may be mapped";
    void* handle = nullptr;
    EXPECT_EQ(tuttiCommRegister(comm, memory, 2 * kLarge * sizeof(float), &handle), tuttiSuccess);
    for (int i = 0; i < 2; ++i) (void)call();
    EXPECT_TRUE(call());
    EXPECT_EQ(stand_in().mappings(), arenas + 1);
    EXPECT_EQ(tuttiCommDeregister(comm, handle), tuttiSuccess);
    meet(shared, rank, 2, shared.step[rank] + 1);
    EXPECT_FALSE(call());
    EXPECT_EQ(stand_in().mappings(), arenas);
    EXPECT_TRUE(stand_in().release(0, memory).ok());
  });
}

// A peer may have it mapped when it is freed: it is there until the peer has closed it, and not for ever.
TEST(LentMemory, IsReleasedOnceNobodyReadsIt) {
  run(2, [](tuttiComm_t comm, int rank, Shared& shared) {
    const std::size_t allocations = stand_in().allocations();
    {
      Buffers data(1.0f);
      for (int i = 1; i < 4; ++i, meet(shared, rank, 2, i)) (void)data.are_lent(comm);
      EXPECT_TRUE(data.are_lent(comm));
      meet(shared, rank, 2, 10);
    }
    EXPECT_EQ(stand_in().allocations(), allocations + 2) << "its own, and the peer's";
    Buffers other(1.0f);
    for (int i = 11; i < 14; ++i, meet(shared, rank, 2, i)) (void)other.are_lent(comm);
    EXPECT_TRUE(other.are_lent(comm));
    const DeviceVector last(10, 0.0f);  // allocating looks after what was freed
    EXPECT_EQ(stand_in().allocations(), allocations + 3) << "the new ones, and the peer's";
    meet(shared, rank, 2, 20);
  });
}

TEST(LentMemory, ThatAPeerCannotMapGoesThroughSlots) {
  run(2, [](tuttiComm_t comm, int rank, Shared& shared) {
    Buffers data(1.0f);
    if (rank == 1) stand_in().fail_next("open_memory", "it is too far away");
    meet(shared, rank, 2, 1);
    EXPECT_FALSE(data.are_lent(comm));
    for (int i = 2; i < 5; ++i, meet(shared, rank, 2, i)) data.reduce(comm);
    EXPECT_EQ(data.are_lent(comm), rank == 1) << "rank 0 maps what rank 1 lends";
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
      for (int again = 0; again < 3; ++again) {
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

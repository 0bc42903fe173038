// Multicast between devices of one process through the C API: who gets it, what happens where it cannot be set up, and
// that nothing of it stays.
// Covers transport/device/multicast_buffer.cc, transport/device/rank_device_links.cc, comm/device/device_group.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "cases/collective_cases.h"
#include "cases/effort_of.h"
#include "support/depth.h"
#include "support/device/caller_stream.h"
#include "support/device/device_vector.h"
#include "support/ranks.h"
#include "support/sanitized.h"
#include "support/texts.h"
#include "transport/device/multicast_buffer.h"

namespace tutti::test {
namespace {

StandInMappings& mappings() { return *stand_in().virtual_memory(); }

class Multicast : public ::testing::Test {
 protected:
  void SetUp() override { use_devices(4); }
  void TearDown() override {
    use_devices(1);
    mappings().set_multicast_devices(0);
    mappings().set_apart(false);
    EXPECT_EQ(stand_in().allocations(), before_);
    EXPECT_EQ(mappings().faults(), faults_);
  }
  static void use_devices(int devices) {
    stand_in().set_devices(devices);
    mappings().set_multicast_devices(devices);
  }
  std::size_t objects_made() const { return mappings().objects() - objects_; }

 private:
  const std::size_t before_ = stand_in().allocations();
  const std::size_t objects_ = mappings().objects();
  const std::vector<std::string> faults_ = mappings().faults();
  const ScopedSetting transport_{"TUTTI_TRANSPORT", "cuda"};
};

/// A sum and an all-gather, of small and of large messages, on the rank's device.
void call_some(tuttiComm_t comm, int rank, int ranks, int device, tuttiStream_t stream = nullptr) {
  for (const std::size_t count : {std::size_t{5}, std::size_t{50'000}}) {
    DeviceVector data(count, static_cast<float>(rank + 1), device);
    DeviceVector all(count * static_cast<std::size_t>(ranks), 0.0f, device);
    EXPECT_EQ(tuttiAllGather(data.data(), all.data(), count, tuttiFloat32, comm, stream), tuttiSuccess)
        << last_error(comm);
    EXPECT_EQ(tuttiAllReduce(data.data(), data.data(), count, tuttiFloat32, tuttiSum, comm, stream), tuttiSuccess)
        << last_error(comm);
    if (stream != nullptr) {
      EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiSuccess) << last_error(comm);
    }
    EXPECT_TRUE(data.is(static_cast<float>(ranks * (ranks + 1) / 2)));
    for (std::size_t i = 0; i < count * static_cast<std::size_t>(ranks); ++i)
      ASSERT_EQ(all[i], static_cast<float>(i / count + 1)) << i;
  }
}

std::uint64_t device_memory(tuttiComm_t comm) {
  std::uint64_t bytes = 0;
  EXPECT_EQ(tuttiCommMemStats(comm, tuttiMemStatDevice, &bytes), tuttiSuccess);
  return bytes;
}

struct Offer {
  int ranks;
  bool mapped;
  bool apart;  ///< what is read and what is written have different addresses
};

class MulticastCollectives : public Multicast, public ::testing::WithParamInterface<Offer> {};

TEST_P(MulticastCollectives, AreExact) {
  const auto [ranks, mapped, apart] = GetParam();
  use_devices(mapped ? 2 : ranks);
  mappings().set_apart(apart && !kThreadSanitized);  // which does not see that two addresses are of one memory
  const ScopedSetting multicast("TUTTI_MULTICAST", mapped ? "mapped" : "auto");
  const int rounds = ranks <= (covers_all() ? 3 : 2) ? 2 : 1;
  for (int round = 0; round < rounds; ++round) {
    stand_in().take_all_memory(true);
    run_threads(ranks, [ranks = ranks, mapped = mapped](tuttiComm_t comm, int rank) {
      StandInDriver::use(mapped ? rank % 2 : rank);
      EXPECT_GT(mappings().count(), 0u);
      const cases::Outcome reductions =
          cases::run_collective_cases(comm, rank, ranks, cases::sample_of(cases::Effort::kLeast));
      EXPECT_GT(reductions.checked, 0);
      EXPECT_EQ(reductions.failed, 0) << "of " << reductions.checked;
      const cases::Outcome moves =
          cases::run_exchange_cases(comm, rank, ranks, cases::sample_of(cases::Effort::kLeast));
      EXPECT_EQ(moves.failed, 0) << "of " << moves.checked;
      EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << last_error();
    });
    stand_in().take_all_memory(false);
    EXPECT_EQ(mappings().count(), 0u);
  }
  EXPECT_EQ(objects_made(), mapped ? 0u : static_cast<std::size_t>(rounds));
}

INSTANTIATE_TEST_SUITE_P(Ranks, MulticastCollectives,
                         ::testing::Values(Offer{2, false, false}, Offer{3, false, true}, Offer{4, false, true},
                                           Offer{5, false, false}, Offer{8, false, true}, Offer{1, true, false},
                                           Offer{3, true, false}, Offer{4, true, true}),
                         [](const auto& info) {
                           return std::to_string(info.param.ranks) + (info.param.mapped ? "_mapped" : "_multicast") +
                                  (info.param.apart ? "_apart" : "");
                         });

// At once, too: each has an object of its own.
TEST_F(Multicast, IsOfEachCommunicator) {
  constexpr int kRanks = 4;
  std::vector<tuttiComm_t> first(kRanks), second(kRanks);
  ASSERT_EQ(tuttiCommInitAll(first.data(), kRanks, nullptr), tuttiSuccess) << last_error();
  const std::size_t of_one = mappings().count();
  EXPECT_GT(of_one, 0u);
  ASSERT_EQ(tuttiCommInitAll(second.data(), kRanks, nullptr), tuttiSuccess) << last_error();
  EXPECT_EQ(objects_made(), 2u);
  EXPECT_EQ(mappings().count(), 2 * of_one);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      StandInDriver::use(rank);
      const auto own = static_cast<std::size_t>(rank);
      for (int round = 0; round < 3; ++round)
        for (const tuttiComm_t comm : {first[own], second[own]}) call_some(comm, rank, kRanks, rank);
      EXPECT_EQ(tuttiCommDestroy(first[own]), tuttiSuccess);
      call_some(second[own], rank, kRanks, rank);
      EXPECT_EQ(tuttiCommDestroy(second[own]), tuttiSuccess);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

/// What the device memory of ranks 0 and 1 is, of a communicator that has made some calls.
std::vector<std::uint64_t> memory_of(int ranks, const std::vector<int>& devices) {
  std::vector<std::uint64_t> bytes(2);
  run_threads(ranks, [&](tuttiComm_t comm, int rank) {
    const int device = devices[static_cast<std::size_t>(rank)];
    if (rank < 2) bytes[static_cast<std::size_t>(rank)] = device_memory(comm);
    call_some(comm, rank, ranks, device);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << last_error();
  });
  return bytes;
}

TEST_F(Multicast, IsForRanksThatHaveADeviceEachWithIt) {
  use_devices(2);
  const std::vector<std::uint64_t> with = memory_of(2, {0, 1});
  EXPECT_EQ(objects_made(), 1u);
  {
    const ScopedSetting off("TUTTI_MULTICAST", "off");
    const std::vector<std::uint64_t> without = memory_of(2, {0, 1});
    EXPECT_GT(with[0], without[0]);
    EXPECT_GT(with[1], without[1]);
  }
  (void)memory_of(4, {0, 1, 0, 1});  // two ranks share a device
  mappings().set_multicast_devices(1);
  (void)memory_of(2, {0, 1});  // one device lacks it
  mappings().set_multicast_devices(2);
  stand_in().set_maps_memory(false);
  (void)memory_of(2, {0, 1});  // the driver is too old
  stand_in().set_maps_memory(true);
  EXPECT_EQ(objects_made(), 1u);
}

// Whichever step of it fails: the ranks go on without, and nothing half made stays.
TEST_F(Multicast, ThatCannotBeSetUpIsDoneWithout) {
  constexpr int kRanks = 3;
  use_devices(kRanks);
  std::size_t step = 0;
  for (bool failed = true; failed;) {
    ++step;
    mappings().fail_call(step);
    const std::size_t before = mappings().calls();
    std::vector<tuttiComm_t> comms(kRanks);
    ASSERT_EQ(tuttiCommInitAll(comms.data(), kRanks, nullptr), tuttiSuccess) << last_error();
    failed = mappings().calls() - before == step;
    EXPECT_EQ(mappings().count() == 0, failed) << step;
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < kRanks; ++rank) {
      ranks.emplace_back([&, rank] {
        StandInDriver::use(rank);
        call_some(comms[static_cast<std::size_t>(rank)], rank, kRanks, rank);
        EXPECT_EQ(tuttiCommDestroy(comms[static_cast<std::size_t>(rank)]), tuttiSuccess);
      });
    }
    for (std::thread& rank : ranks) rank.join();
    EXPECT_EQ(mappings().count(), 0u);
  }
  mappings().fail_call(0);
  EXPECT_EQ(step, 3u + 5u * kRanks) << "a size, an object, and for each rank memory, a binding, two addresses, zeros";
}

// A check that checks nothing is none.
TEST_F(Multicast, ThatIsMappedForACheckIsNotDoneWithout) {
  const ScopedSetting mapped("TUTTI_MULTICAST", "mapped");
  const ScopedSetting quiet("TUTTI_LOG", "error");
  tuttiComm_t comms[2];
  for (const char* function : {"granularity", "create", "map", "zero"}) {
    stand_in().fail_next(function, "not today");
    EXPECT_EQ(tuttiCommInitAll(comms, 2, nullptr), tuttiUnhandledCudaError);
    EXPECT_TRUE(contains(last_error(), std::string(function) + ": not today (found by rank 0)")) << last_error();
    EXPECT_EQ(mappings().count(), 0u);
  }
  stand_in().set_maps_memory(false);
  EXPECT_EQ(tuttiCommInitAll(comms, 2, nullptr), tuttiUnsupported);
  EXPECT_TRUE(contains(last_error(), "TUTTI_MULTICAST=mapped is for ranks of one process")) << last_error();
  stand_in().set_maps_memory(true);
}

// The join's check of the other links has passed then: the ranks make them anew, without multicast. But where they were
// told to check it.
TEST_F(Multicast, ThatCarriesNothingIsDoneWithout) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  tuttiComm_t comms[2];
  const std::size_t launches = stand_in().launches();
  stand_in().skip_kernels(4, 4);  // two sizes, two ranks; then all
  ASSERT_EQ(tuttiCommInitAll(comms, 2, nullptr), tuttiSuccess) << last_error();
  EXPECT_EQ(stand_in().launches() - launches, 12u);
  EXPECT_EQ(objects_made(), 1u);
  EXPECT_EQ(mappings().count(), 0u);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      StandInDriver::use(rank);
      call_some(comms[rank], rank, 2, rank);
      EXPECT_EQ(tuttiCommDestroy(comms[rank]), tuttiSuccess);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  const ScopedSetting mapped("TUTTI_MULTICAST", "mapped");
  stand_in().skip_kernels(4, 4);
  EXPECT_EQ(tuttiCommInitAll(comms, 2, nullptr), tuttiSystemError);
  stand_in().skip_kernels(false);
  EXPECT_TRUE(contains(last_error(), "by multicast between devices did not arrive")) << last_error();
}

TEST_F(Multicast, IsReplayedByGraphs) {
  constexpr int kRanks = 3;
  use_devices(kRanks);
  run_threads(kRanks, [](tuttiComm_t comm, int rank) {
    EXPECT_GT(mappings().count(), 0u);
    CallerStream stream(rank);
    for (const std::size_t count : {std::size_t{4}, std::size_t{20'000}}) {
      DeviceMemory<std::uint32_t> own(count, 0, rank), all(count * kRanks, 0, rank);
      stand_in().begin_capture(stream.cuda());
      EXPECT_EQ(tuttiAllGather(own.data(), all.data(), count, tuttiUint32, comm, stream.get()), tuttiSuccess);
      std::shared_ptr<const Graph> graph;
      EXPECT_TRUE(stand_in().end_capture({stream.cuda()}, &graph).ok());
      for (std::uint32_t replay = 1; replay < (kSanitized ? 4 : 20); ++replay) {
        StandInDriver::put(stream.cuda(), [&, replay] { own.fill(replay * 10 + static_cast<std::uint32_t>(rank)); });
        StandInDriver::launch(graph, stream.cuda());
        stream.drain();
        for (std::size_t i = 0; i < count * kRanks; ++i)
          ASSERT_EQ(all[i], replay * 10 + static_cast<std::uint32_t>(i / count)) << replay << ' ' << i;
      }
    }
    call_some(comm, rank, kRanks, rank, stream.get());
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << last_error();
  });
  EXPECT_EQ(objects_made(), 1u);
}

TEST(Mirrors, AreChosenByAllAlike) {
  const auto choose = [](std::vector<MulticastKind> wishes, MulticastKind* kind) {
    return choose_mirrors(wishes, std::vector<int>{}, kind);
  };
  MulticastKind kind = MulticastKind::kMapped;
  EXPECT_TRUE(choose({MulticastKind::kMulticast, MulticastKind::kNone}, &kind).ok());
  EXPECT_EQ(kind, MulticastKind::kNone);
  EXPECT_TRUE(choose({MulticastKind::kMulticast, MulticastKind::kMulticast}, &kind).ok());
  EXPECT_EQ(kind, MulticastKind::kMulticast);
  EXPECT_TRUE(choose({MulticastKind::kMapped, MulticastKind::kMapped}, &kind).ok());
  EXPECT_EQ(kind, MulticastKind::kMapped);
  const Status mixed = choose({MulticastKind::kMulticast, MulticastKind::kMapped}, &kind);
  EXPECT_EQ(mixed.code(), Code::kInvalidArgument);
  EXPECT_TRUE(contains(mixed.text(), "'mapped' for rank 1 and not for rank 0")) << mixed.text();
  const std::vector<MulticastKind> wishes{MulticastKind::kMulticast, MulticastKind::kMapped};
  EXPECT_TRUE(contains(choose_mirrors(wishes, std::vector<int>{4, 6}, &kind).text(), "for rank 6 and not for rank 4"));
}

}  // namespace
}  // namespace tutti::test

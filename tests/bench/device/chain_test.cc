// Covers bench/device/chain.h.
// The schedules whose steps are timed on a device do what they say.
#include "../../../bench/device/chain.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "support/device/device_world.h"

namespace tutti::test {
namespace {

constexpr std::size_t kCount = 2;

void run(DeviceWorld& world, int rank, const Schedule& schedule, const std::uint32_t* input, std::uint32_t* output) {
  const Launch launch = bench::launch_of(schedule, reinterpret_cast<const std::byte*>(input),
                                         reinterpret_cast<std::byte*>(output), kCount);
  DevicePlace place = world.place(rank);
  std::vector<std::byte> scratch(device_scratch(launch, world.geometry()).value + 1);
  place.scratch = scratch.data();
  DeviceCall call{};
  bind_device_call(launch, place, &call);
  EXPECT_EQ(call.grid(), 1u);
  if (schedule.steps.size() > kInlineSteps) call.table = schedule.steps.data();
  run_on_host(call, 2);
}

TEST(Chains, ACopyChainCopies) {
  for (const std::uint32_t steps : {1u, 64u, 65u}) {
    DeviceWorld world(DeviceGeometry{});
    const std::uint32_t input[kCount] = {7, 11};
    std::uint32_t output[kCount] = {};
    run(world, 0, bench::copy_chain(steps), input, output);
    EXPECT_EQ(output[0], 7u);
    EXPECT_EQ(output[1], 11u);
  }
}

// Launched again and again on the same links, as the measurement does.
TEST(Chains, ARelayCarriesAsManyMessages) {
  DeviceGeometry geometry;
  geometry.ranks = 2;
  DeviceWorld world(geometry);
  for (const std::uint32_t messages : {1u, 2u, 63u, 128u}) {
    const std::uint32_t input[2][kCount] = {{1, 2}, {3, 4}};
    std::uint32_t output[2][kCount] = {};
    std::vector<std::thread> ranks;
    for (const int rank : {0, 1})
      ranks.emplace_back(
          [&, rank] { run(world, rank, bench::relay_chain(messages, rank), input[rank], output[rank]); });
    for (std::thread& rank : ranks) rank.join();
    for (const int rank : {0, 1}) {
      const int from = messages % 2 == 1 ? 1 - rank : rank;
      EXPECT_EQ(output[rank][0], input[from][0]) << messages << " messages, rank " << rank;
      EXPECT_EQ(output[rank][1], input[from][1]) << messages << " messages, rank " << rank;
      EXPECT_EQ(world.report(rank).failures[0], 0u);
    }
  }
}

}  // namespace
}  // namespace tutti::test

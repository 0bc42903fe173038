// Covers executor/device/device_executor.cc.
// A program too long for a kernel's parameters, whose table is copied while a stream is captured. No algorithm that the
// device's choice may take is that long yet, so the executor is asked itself.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "../../../bench/device/chain.h"
#include "executor/cpu_executor.h"
#include "executor/device/device_executor.h"
#include "executor/device/device_launch.h"
#include "support/device/stand_in_driver.h"
#include "transport/inproc.h"

namespace tutti::test {
namespace {

/// The exchange of a rank that is the only one.
class Alone final : public RankExchange {
 public:
  Status exchange(std::span<const std::byte> mine, std::vector<std::byte>* all) override {
    all->assign(mine.begin(), mine.end());
    return {};
  }
};

std::unique_ptr<Executor> host_executor() {
  const auto fabric = std::make_shared<InprocFabric>(1, 1, Bytes{4096});
  return std::make_unique<CpuExecutor<InprocEndpoint>>(std::make_unique<InprocEndpoint>(fabric, Rank{0}),
                                                       LadderPolicy{}, PointToPointPolicy{Lane{0}});
}

/// An executor of one rank on device 0.
std::unique_ptr<DeviceExecutor> device_executor(Executor& host) {
  DevicePeers peers;
  peers.cards.emplace_back();
  peers.processes = {0};
  EXPECT_TRUE(DeviceInfo::of(stand_in(), 0, &peers.cards[0]).ok());
  const auto fabric =
      std::make_shared<DeviceFabric>(stand_in(), std::make_shared<BlockBudget>(),
                                     std::vector<std::shared_ptr<Segment>>{}, std::vector<std::shared_ptr<Segment>>{});
  auto seat = std::make_unique<RankDeviceLinks>(fabric, stand_in(), 0, Rank{0}, peers);
  Alone alone;
  EXPECT_TRUE(seat->open(Bytes{65536}, MulticastMode::kAuto, kernels_of_collectives(), alone).ok());
  auto executor = std::make_unique<DeviceExecutor>(std::move(seat), host);
  EXPECT_TRUE(executor->open().ok());
  return executor;
}

TEST(LongPrograms, HaveTheirTablesBesideACapture) {
  const std::unique_ptr<Executor> host = host_executor();
  const std::unique_ptr<DeviceExecutor> executor = device_executor(*host);
  DeviceDriver::Stream stream = nullptr;
  ASSERT_TRUE(stand_in().create_caller_stream(0, &stream).ok());
  std::uint32_t input[2] = {7, 11}, output[2] = {};
  Schedule schedule = bench::copy_chain(kInlineSteps + 1);
  const Launch launch =
      bench::launch_of(schedule, reinterpret_cast<const std::byte*>(input), reinterpret_cast<std::byte*>(output), 2);
  std::shared_ptr<CallEnd> ended;
  stand_in().begin_capture(stream);
  Status launched = executor->launch_on(launch, stream, &ended);
  EXPECT_TRUE(launched.ok()) << launched.text();
  std::shared_ptr<const Graph> graph;
  const Status captured = stand_in().end_capture({stream}, &graph);
  EXPECT_TRUE(captured.ok()) << captured.text();
  EXPECT_EQ(ended, nullptr);
  EXPECT_EQ(output[1], 0u) << "it has run";
  for (Step& step : schedule.steps) step = Step{};  // what the graph has is its own
  for (std::uint32_t replay = 1; replay <= 2; ++replay) {
    input[1] = replay;
    StandInDriver::launch(graph, stream);
    ASSERT_TRUE(stand_in().synchronize(stream).ok());
    EXPECT_EQ(output[0], 7u);
    EXPECT_EQ(output[1], replay);
  }
  // And other calls have it, too.
  input[0] = 13;
  launched = executor->launch_on(launch, stream, &ended);
  EXPECT_TRUE(launched.ok()) << launched.text();
  ASSERT_TRUE(stand_in().synchronize(stream).ok());
  EXPECT_EQ(output[0], 13u);
  EXPECT_TRUE(stand_in().destroy_stream(stream).ok());
}

}  // namespace
}  // namespace tutti::test

// The collectives on device memory through the C API, with the stand-in for a GPU: ranks as threads and in one thread,
// on one device and on several.
// Covers executor/device/device_executor.cc, executor/device/device_binding.cc, executor/device/device_interpreter.h.
#include "cases/collective_cases.h"
#include "cases/effort_of.h"

#include <gtest/gtest.h>

#include "support/device/stand_in_driver.h"
#include "support/ranks.h"

namespace tutti::test {
namespace {

class DeviceCollectives : public ::testing::TestWithParam<std::tuple<int, int>> {
 protected:
  void SetUp() override {
    stand_in().set_devices(std::get<1>(GetParam()));
    stand_in().take_all_memory(true);
  }
  void TearDown() override {
    stand_in().set_devices(1);
    stand_in().take_all_memory(false);
    EXPECT_EQ(stand_in().allocations(), before_);
  }

 private:
  const std::size_t before_ = stand_in().allocations();  // tests of aborts may leave memory behind
};

TEST_P(DeviceCollectives, AreExact) {
  const auto [ranks, devices] = GetParam();
  const std::size_t launches = stand_in().launches();
  const ScopedSetting transport("TUTTI_TRANSPORT", "cuda");
  run_threads(ranks, [ranks = ranks, devices = devices](tuttiComm_t comm, int rank) {
    StandInDriver::use(rank % devices);
    const cases::Outcome reductions =
        cases::run_collective_cases(comm, rank, ranks, cases::sample_of(cases::Effort::kFew));
    EXPECT_GT(reductions.checked, 0);
    EXPECT_EQ(reductions.failed, 0) << "of " << reductions.checked;
    const cases::Outcome moves = cases::run_exchange_cases(comm, rank, ranks, cases::sample_of(cases::Effort::kFew));
    EXPECT_EQ(moves.failed, 0) << "of " << moves.checked;
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
  EXPECT_GT(stand_in().launches(), launches);
}

INSTANTIATE_TEST_SUITE_P(Ranks, DeviceCollectives,
                         ::testing::Values(std::tuple(1, 1), std::tuple(2, 1), std::tuple(3, 2), std::tuple(4, 1),
                                           std::tuple(5, 4), std::tuple(8, 2)),
                         [](const auto& info) {
                           return std::to_string(std::get<0>(info.param)) + "_on_" +
                                  std::to_string(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace tutti::test

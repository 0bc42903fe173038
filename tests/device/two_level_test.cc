// Calls at two levels: ranks of each host by kernels, shares between hosts through host memory. Each process is a host
// of its own name here.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cases/collective_cases.h"
#include "cases/effort_of.h"
#include "device/device_processes.h"
#include "device/staged_world.h"

namespace tutti::test {
namespace {

/// So that every process calls itself another host.
void name_host(int process) { ::setenv("TUTTI_HOSTID", ("host " + std::to_string(process)).c_str(), 1); }

struct NamedLayout {
  const char* name;
  DeviceLayout layout;
};
std::string name_of(const ::testing::TestParamInfo<NamedLayout>& info) { return info.param.name; }

/// Every call that has such a form takes it, however small.
class TwoLevels : public ::testing::TestWithParam<NamedLayout> {
 protected:
  const ScopedSetting quiet_{"TUTTI_LOG", "error"};
  const ScopedSetting from_{"TUTTI_TWO_LEVELS", "0"};
};

TEST_P(TwoLevels, AreExact) {
  DeviceLayout layout = GetParam().layout;
  layout.before = [](int process) {
    name_host(process);
    stand_in().take_all_memory(true);
  };
  const int ranks = layout.ranks();
  DeviceProcesses processes(layout, [ranks](tuttiComm_t comm, int rank, Shared& shared) {
    ASSERT_NE(comm, nullptr) << shared.text[rank];
    const std::size_t launches = stand_in().launches();
    const cases::Outcome outcome = cases::run_all_cases(comm, rank, ranks, cases::effort_of(cases::Effort::kFew), 4);
    EXPECT_GT(outcome.checked, 0);
    EXPECT_EQ(outcome.failed, 0) << "of " << outcome.checked << ": " << tuttiGetLastError(comm);
    EXPECT_GT(stand_in().launches(), launches) << "no kernel ran";
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
  processes.expect_success();
}

INSTANTIATE_TEST_SUITE_P(Layouts, TwoLevels,
                         ::testing::Values(NamedLayout{"TwoOfTwo", {2, 2, 2}},
                                           NamedLayout{"TwoOfThreeInTurn", {2, 3, 1, false, true}},
                                           NamedLayout{"ThreeOfTwo", {3, 2, 1}}),
                         name_of);

}  // namespace
}  // namespace tutti::test

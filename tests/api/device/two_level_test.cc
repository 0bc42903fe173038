// Calls at two levels: the ranks of each host by kernels, their shares between hosts through host memory. Which calls
// take that way, and that these are exact.
// Covers executor/device/two_level_stage.cc, comm/device/device_side.cc, collectives/choice/two_level.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cases/collective_cases.h"
#include "cases/effort_of.h"
#include "support/depth.h"
#include "support/device/caller_stream.h"
#include "support/device/host_names.h"
#include "support/device/staged_fixture.h"

namespace tutti::test {
namespace {

struct NamedHosts {
  const char* name;
  DeviceLayout layout;
  int processes_a_host = 1;
  cases::Effort effort = cases::Effort::kLeast;
};
std::string name_of(const ::testing::TestParamInfo<NamedHosts>& info) { return info.param.name; }

class TwoLevels : public ::testing::TestWithParam<NamedHosts> {
 protected:
  static DeviceLayout layout() {
    DeviceLayout layout = GetParam().layout;
    layout.before = [each = GetParam().processes_a_host](int process) { name_host(process, each); };
    return layout;
  }
  const ScopedSetting quiet_{"TUTTI_LOG", "error"};
};

// Every call that has such a form takes it, however small.
TEST_P(TwoLevels, AreExact) {
  const ScopedSetting from("TUTTI_TWO_LEVELS", "0");
  DeviceLayout layout = TwoLevels::layout();
  layout.before = [name = layout.before](int process) {
    name(process);
    stand_in().take_all_memory(true);
  };
  const int ranks = layout.ranks();
  const cases::Effort effort = cases::sample_of(GetParam().effort);
  DeviceProcesses processes(layout, [=](tuttiComm_t comm, int rank, Shared& shared) {
    ASSERT_NE(comm, nullptr) << shared.text[rank];
    const std::size_t launches = stand_in().launches();
    const cases::Outcome outcome = cases::run_all_cases(comm, rank, ranks, effort, 4);
    EXPECT_GT(outcome.checked, 0);
    EXPECT_EQ(outcome.failed, 0) << "of " << outcome.checked << ": " << tuttiGetLastError(comm);
    EXPECT_GT(stand_in().launches(), launches) << "no kernel ran";
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
  processes.expect_success();
}

std::vector<float> sums(int ranks, std::size_t block, std::size_t count) {
  std::vector<float> all(count);
  for (std::size_t i = 0; i < count; ++i)
    for (int rank = 0; rank < ranks; ++rank) all[i] += value_of(rank, block, i);
  return all;
}

/// Each rank's part of the calls of one communicator; counts of many segments, the last ones not whole.
struct Calls {
  tuttiComm_t comm;
  int rank;
  int ranks;
  tuttiStream_t stream;
  std::size_t count;
  std::size_t block = count / static_cast<std::size_t>(ranks);

  void end(tuttiResult_t called) const {
    EXPECT_EQ(called, tuttiSuccess) << tuttiGetLastError(comm);
    if (stream != nullptr) {
      EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiSuccess) << tuttiGetLastError(comm);
    }
  }
  void reduce() const {
    DeviceFloats in(blocks_of(rank, 1, count)), out(count);
    const std::vector<float> expected = sums(ranks, 0, count);
    end(tuttiAllReduce(in.data(), out.data(), count, tuttiFloat32, tuttiSum, comm, stream));
    EXPECT_TRUE(out.get() == expected);
    EXPECT_TRUE(in.get() == blocks_of(rank, 1, count)) << "the input was written";
    for (int root = 0; root < ranks; ++root) {
      DeviceFloats result(count);
      end(tuttiReduce(in.data(), rank == root ? result.data() : nullptr, count, tuttiFloat32, tuttiSum, root, comm,
                      stream));
      if (rank == root) {
        EXPECT_TRUE(result.get() == expected) << "root " << root;
      }
    }
    end(tuttiAllReduce(in.data(), in.data(), count, tuttiFloat32, tuttiAvg, comm, stream));
    std::vector<float> mean = expected;
    for (float& value : mean) value /= static_cast<float>(ranks);
    EXPECT_TRUE(in.get() == mean);
  }
  void broadcast() const {
    for (int root = 0; root < ranks; ++root) {
      DeviceFloats data(blocks_of(rank, 1, count));
      end(tuttiBroadcast(data.data(), data.data(), count, tuttiFloat32, root, comm, stream));
      EXPECT_TRUE(data.get() == blocks_of(root, 1, count)) << "root " << root;
    }
  }
  void blocks() const {
    const auto all = static_cast<std::size_t>(ranks), own = static_cast<std::size_t>(rank);
    DeviceFloats in(blocks_of(rank, all, block)), part(block), whole(all * block);
    const std::vector<float> expected = sums(ranks, own, block);
    end(tuttiReduceScatter(in.data(), part.data(), block, tuttiFloat32, tuttiSum, comm, stream));
    EXPECT_TRUE(part.get() == expected);
    end(tuttiReduceScatter(in.data(), in.data() + own * block, block, tuttiFloat32, tuttiSum, comm, stream));
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), in.data() + own * block));
    std::vector<float> gathered;
    for (std::size_t b = 0; b < all; ++b) {
      const std::vector<float> one = sums(ranks, b, block);
      gathered.insert(gathered.end(), one.begin(), one.end());
    }
    end(tuttiAllGather(part.data(), whole.data(), block, tuttiFloat32, comm, stream));
    EXPECT_TRUE(whole.get() == gathered);
    end(tuttiAllGather(in.data() + own * block, in.data(), block, tuttiFloat32, comm, stream));
    EXPECT_TRUE(in.get() == gathered);
  }
};

TEST_P(TwoLevels, OfManySegments) {
  const int ranks = layout().ranks();
  const std::size_t count = covers_all() && !kSanitized ? 2'600'017 : 800'021;
  DeviceProcesses processes(layout(), [=](tuttiComm_t comm, int rank, Shared& shared) {
    ASSERT_NE(comm, nullptr) << shared.text[rank];
    const std::size_t launches = stand_in().launches();
    const Calls calls{comm, rank, ranks, nullptr, count};
    calls.reduce();
    calls.broadcast();
    calls.blocks();
    EXPECT_GT(stand_in().launches(), launches) << "no kernel ran";
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
  processes.expect_success();
}

// What the caller put on its stream before is done before, and what comes later waits for the call.
TEST_P(TwoLevels, OnStreamsOfTheCaller) {
  const int ranks = layout().ranks();
  DeviceProcesses processes(layout(), [=](tuttiComm_t comm, int rank, Shared& shared) {
    ASSERT_NE(comm, nullptr) << shared.text[rank];
    const std::size_t count = 100'000;
    DeviceFloats data(count);
    {
      CallerStream stream(stand_in().current_device());
      const Calls calls{comm, rank, ranks, stream.get(), count};
      calls.reduce();
      calls.blocks();
      stream.put([&] { std::fill_n(data.data(), count, 1.0f); });
      for (int call = 0; call < 3; ++call) EXPECT_EQ(data.reduce(comm, stream.get()), tuttiSuccess);
      stream.put([&] {
        for (std::size_t i = 0; i < count; ++i) data.data()[i] += 1.0f;
      });
      stream.drain();
      EXPECT_EQ(tuttiStreamSynchronize(stream.get()), tuttiSuccess) << tuttiGetLastError(comm);
    }
    EXPECT_TRUE(data.get() == std::vector<float>(count, static_cast<float>(ranks * ranks * ranks) + 1.0f));
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
  processes.expect_success();
}

/// Under a sanitizer, which slows kernels down a hundredfold, those that differ most.
std::vector<NamedHosts> layouts() {
  const NamedHosts one{"TwoOfTwo", {2, 2, 2}, 1, cases::Effort::kFew};
  const NamedHosts two{"ThreeOfTwoProcesses", {6, 1, 1}, 2};
  if (kSanitized) return {one, two};
  return {one, two, NamedHosts{"TwoOfThreeInTurn", {2, 3, 1, false, true}}};
}
INSTANTIATE_TEST_SUITE_P(Layouts, TwoLevels, ::testing::ValuesIn(layouts()), name_of);

/// What two ranks a host, two hosts, run for a call of so many floats on device memory; the same on all.
struct SettingsWay {
  const char* name;
  std::size_t count;
  bool kernels;
  const char* setting = "TUTTI_TWO_LEVELS";
  const char* value = "64K";
};
class TwoLevelWay : public ::testing::TestWithParam<SettingsWay> {};

TEST_P(TwoLevelWay, IsThatOfTheSettings) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  const ScopedSetting setting(GetParam().setting, GetParam().value);
  DeviceLayout layout{2, 2, 1};
  layout.before = [](int process) { name_host(process); };
  DeviceProcesses processes(layout, [way = GetParam()](tuttiComm_t comm, int rank, Shared& shared) {
    ASSERT_NE(comm, nullptr) << shared.text[rank];
    const std::size_t launches = stand_in().launches();
    DeviceFloats data(std::vector<float>(way.count, 1.0f));
    EXPECT_EQ(data.reduce(comm), tuttiSuccess) << tuttiGetLastError(comm);
    EXPECT_TRUE(data.get() == std::vector<float>(way.count, 4.0f));
    EXPECT_EQ(stand_in().launches() > launches, way.kernels);
    char text[100] = "";
    const std::string key = "device_algorithm:all_reduce:" + std::to_string(way.count * sizeof(float));
    EXPECT_EQ(tuttiCommGetInfo(comm, key.c_str(), text, sizeof text), tuttiSuccess);
    EXPECT_EQ(std::string(text) == "two_levels: recursive_doubling", way.kernels) << text;
    EXPECT_EQ(tuttiBarrier(comm, nullptr), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
  processes.expect_success();
}
INSTANTIATE_TEST_SUITE_P(Ways, TwoLevelWay,
                         ::testing::Values(SettingsWay{"Large", 16'384, true}, SettingsWay{"Small", 16'383, false},
                                           SettingsWay{"Off", 100'000, false, "TUTTI_TWO_LEVELS", "off"},
                                           SettingsWay{"Named", 100'000, false, "TUTTI_ALGO", "ring"},
                                           SettingsWay{"Deterministic", 100'000, false, "TUTTI_DETERMINISTIC", "1"}),
                         [](const auto& info) { return info.param.name; });

// Hosts of different sizes have no ranks of one index each, and a host whose ranks cannot reach one another is one for
// all: data goes through host memory.
class NoTwoLevels : public ::testing::TestWithParam<NamedHosts> {};

TEST_P(NoTwoLevels, LeaveTheWayThroughHostMemory) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  DeviceLayout layout = GetParam().layout;
  const bool fails = std::string(GetParam().name) == "OneHostWithoutLinks";
  layout.before = [=, each = GetParam().processes_a_host](int process) {
    name_host(process, each);
    if (fails && process == 1) stand_in().fail_next("create_stream", "no more streams");
  };
  DeviceProcesses processes(layout, [ranks = layout.ranks()](tuttiComm_t comm, int rank, Shared& shared) {
    ASSERT_NE(comm, nullptr) << shared.text[rank];
    const std::size_t launches = stand_in().launches();
    DeviceFloats data(std::vector<float>(100'000, 1.0f));
    EXPECT_EQ(data.reduce(comm), tuttiSuccess) << tuttiGetLastError(comm);
    EXPECT_TRUE(data.get() == std::vector<float>(100'000, static_cast<float>(ranks)));
    EXPECT_EQ(stand_in().launches(), launches);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
  processes.expect_success();
}
INSTANTIATE_TEST_SUITE_P(Layouts, NoTwoLevels,
                         ::testing::Values(NamedHosts{"HostsOfTwoAndOne", {3, 1, 1}, 2},
                                           NamedHosts{"OneHostWithoutLinks", {2, 2, 1}},
                                           NamedHosts{"OneRankAHost", {2, 1, 1}}),
                         name_of);

}  // namespace
}  // namespace tutti::test

// What a shrink is given: arguments, options, groups, several ranks in one thread or process, and splits around it.
// Covers comm/shrink.cc, comm/descendants.h, comm/api/api_communicator.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "support/shrunk.h"

namespace tutti::test {
namespace {

/// Each is refused at once, and changes nothing.
void expect_refused_shrinks(tuttiComm_t comm, int rank) {
  tuttiComm_t made = comm;
  const auto refused = [&](const std::vector<int>& exclude, const char* text) {
    made = comm;
    EXPECT_EQ(shrink_without(exclude, comm, &made), tuttiInvalidArgument);
    EXPECT_TRUE(contains(tuttiGetLastError(comm), text)) << tuttiGetLastError(comm);
    EXPECT_EQ(made, nullptr);
  };
  const int other = 1 - rank;
  refused({rank}, "the calling rank");
  refused({other, rank}, "exclude[1]");
  refused({-1}, "no rank");
  refused({other, 2}, "exclude[1] is 2");
  refused({1 << 30}, "no rank");
  EXPECT_EQ(tuttiCommShrink(comm, nullptr, 1, &made, nullptr, 0), tuttiInvalidArgument);
  EXPECT_EQ(tuttiCommShrink(comm, &other, -1, &made, nullptr, 0), tuttiInvalidArgument);
  for (const int flags : {2, 3, -1})
    EXPECT_EQ(tuttiCommShrink(comm, nullptr, 0, &made, nullptr, flags), tuttiInvalidArgument) << flags;
  EXPECT_EQ(tuttiCommShrink(comm, nullptr, 0, nullptr, nullptr, 0), tuttiInvalidArgument);
  const tuttiConfig_t empty{};
  EXPECT_EQ(tuttiCommShrink(comm, nullptr, 0, &made, &empty, 0), tuttiInvalidArgument);
  tuttiConfig_t wrong = TUTTI_CONFIG_INITIALIZER;
  wrong.deterministic = 7;
  EXPECT_EQ(tuttiCommShrink(comm, nullptr, 0, &made, &wrong, TUTTI_SHRINK_ABORT), tuttiInvalidArgument);
  EXPECT_EQ(made, nullptr);
}

TEST(ShrinkArguments, ThatAreWrongAreRefusedAndChangeNothing) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  tuttiComm_t none = nullptr;
  EXPECT_EQ(tuttiCommShrink(nullptr, nullptr, 0, &none, nullptr, 0), tuttiInvalidArgument);
  run_threads(2, [](tuttiComm_t comm, int rank) {
    if (rank == 0) expect_refused_shrinks(comm, rank);
    expect_sum(comm, rank, {0, 1});
    if (rank == 1) expect_refused_shrinks(comm, rank);
    tuttiComm_t made = nullptr;
    expect_shrinks_to({0, 1}, {}, comm, rank, &made);
    EXPECT_EQ(tuttiCommDestroy(made), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
}

TEST(ShrinkArguments, ANullListOfNobodyIsLegalAndSoIsOneThatIsNotRead) {
  tuttiComm_t comm = nullptr, made[2] = {};
  ASSERT_EQ(tuttiCommInitAll(&comm, 1, nullptr), tuttiSuccess);
  const int unread = 99;
  EXPECT_EQ(tuttiCommShrink(comm, nullptr, 0, &made[0], nullptr, TUTTI_SHRINK_DEFAULT), tuttiSuccess);
  EXPECT_EQ(tuttiCommShrink(comm, &unread, 0, &made[1], nullptr, TUTTI_SHRINK_ABORT), tuttiSuccess);
  for (const tuttiComm_t one : made) {
    expect_shrunk(one, 0, {0});
    EXPECT_EQ(tuttiCommDestroy(one), tuttiSuccess);
  }
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
}

TEST(ShrinkArguments, MembersAreOnlyOfWhatAShrinkMade) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  tuttiComm_t comm = nullptr;
  ASSERT_EQ(tuttiCommInitAll(&comm, 1, nullptr), tuttiSuccess);
  char text[100] = {};
  EXPECT_EQ(tuttiCommGetInfo(comm, "members", text, sizeof text), tuttiInvalidUsage);
  EXPECT_EQ(max_of(comm), tuttiSuccess);
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
}

TEST(ShrinkMisuse, AfterFinalizeIsRefused) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  run_threads(2, [](tuttiComm_t comm, int) {
    EXPECT_EQ(tuttiCommFinalize(comm), tuttiSuccess);
    tuttiComm_t made = comm;
    for (const int flags : {TUTTI_SHRINK_DEFAULT, TUTTI_SHRINK_ABORT}) {
      EXPECT_EQ(shrink_without({}, comm, &made, nullptr, flags), tuttiInvalidUsage) << tuttiGetLastError(comm);
      EXPECT_EQ(made, nullptr);
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
}

TEST(ShrinkMisuse, InACallbackIsRefusedAndChangesNothing) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  struct State {
    tuttiComm_t comm = nullptr;
    std::atomic<int> results[2] = {-1, -1};
  } state;
  ASSERT_EQ(tuttiCommInitAll(&state.comm, 1, nullptr), tuttiSuccess);
  tuttiStream_t stream = nullptr;
  ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
  const auto shrink = [](tuttiResult_t, void* user) {
    auto* const known = static_cast<State*>(user);
    tuttiComm_t made = nullptr;
    known->results[0] = shrink_without({}, known->comm, &made);
    known->results[1] = shrink_without({}, known->comm, &made, nullptr, TUTTI_SHRINK_ABORT);
  };
  ASSERT_EQ(tuttiStreamAddCallback(stream, shrink, &state), tuttiSuccess);
  EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiSuccess);
  for (const auto& result : state.results) EXPECT_EQ(result, tuttiInvalidUsage);
  EXPECT_EQ(max_of(state.comm), tuttiSuccess) << tuttiGetLastError(state.comm);
  EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
  EXPECT_EQ(tuttiCommDestroy(state.comm), tuttiSuccess);
}

TEST(ShrinkOptions, AreTheParentsWhereTheyAreNotGiven) {
  constexpr float kFine = 1 + 1.0f / 4096;  // which a float16 does not have
  const auto sum = [](tuttiComm_t comm) {
    float value = kFine;
    EXPECT_EQ(tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiSum, comm, nullptr), tuttiSuccess);
    return value;
  };
  tuttiConfig_t narrow = TUTTI_CONFIG_INITIALIZER;
  narrow.wireType = tuttiFloat16;
  run_threads(
      2,
      [&](tuttiComm_t comm, int rank) {
        tuttiConfig_t wide = TUTTI_CONFIG_INITIALIZER;
        wide.wireType = tuttiFloat32;
        tuttiComm_t as_parent = nullptr, as_given = nullptr;
        expect_shrinks_to({0, 1}, {}, comm, rank, &as_parent);
        expect_shrinks_to({0, 1}, {}, comm, rank, &as_given, &wide);
        EXPECT_EQ(sum(as_parent), 2.0f);
        EXPECT_EQ(sum(as_given), 2 * kFine);
        for (tuttiComm_t one : {as_parent, as_given, comm}) EXPECT_EQ(tuttiCommDestroy(one), tuttiSuccess);
      },
      &narrow);
}

// Lines that are logged of the new communicator have its name.
TEST(AloneShrinkOptions, GiveTheNewCommunicatorItsName) {
  const ScopedSetting log("TUTTI_LOG", "info");
  static std::mutex mutex;
  static std::string lines;
  tuttiSetLogCallback(
      [](int, const char* line, void*) {
        const std::lock_guard lock(mutex);
        lines += std::string(line) + "\n";
      },
      nullptr);
  std::atomic<int> summed{0};
  run_threads(2, [&](tuttiComm_t comm, int rank) {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    std::string name = "those-who-stay";
    config.commName = name.c_str();
    tuttiComm_t made = nullptr;
    ASSERT_EQ(shrink_without({}, comm, &made, &config), tuttiSuccess);
    name.assign(name.size(), '?');
    expect_shrunk(made, rank, {0, 1});
    ++summed;
    await([&] { return summed == 2; }, "both sums, which a revocation could end");
    EXPECT_EQ(tuttiCommRevoke(made, 0), tuttiSuccess);
    EXPECT_EQ(max_of(made), tuttiAborted);
    EXPECT_EQ(tuttiCommDestroy(made), tuttiSuccess);
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
  const auto is_named = [] {
    const std::lock_guard lock(mutex);
    return contains(lines, "those-who-stay");
  };
  EXPECT_TRUE(comes_true(is_named, std::chrono::seconds(10))) << lines;
  tuttiSetLogCallback(nullptr, nullptr);
}

class ShrinkOptionsWays : public ShrinkTest {};

// Nobody is left out because of it, and the old communicator is as it was.
TEST_P(ShrinkOptionsWays, ThatDifferAreAMismatchAndMayBeGivenAgain) {
  run(3, [](tuttiComm_t comm, int rank) {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.deterministic = rank == 1 ? 1 : 0;
    tuttiComm_t made = comm;
    EXPECT_EQ(shrink_without({}, comm, &made, &config), tuttiMismatch);
    EXPECT_TRUE(contains(tuttiGetLastError(comm), "TUTTI_DETERMINISTIC")) << tuttiGetLastError(comm);
    EXPECT_EQ(made, nullptr);
    expect_sum(comm, rank, {0, 1, 2});
    config.deterministic = 1;
    expect_shrinks_to({0, 1, 2}, {}, comm, rank, &made, &config);
    float value = 1;
    EXPECT_EQ(tuttiAllReduceWire(&value, &value, 1, tuttiFloat32, tuttiSum, tuttiFloat16, made, nullptr),
              tuttiInvalidArgument)
        << "the new one is deterministic";
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
    EXPECT_EQ(tuttiCommDestroy(made), tuttiSuccess) << tuttiGetLastError(nullptr);
  });
}

INSTANTIATE_TEST_SUITE_P(Over, ShrinkOptionsWays,
                         ::testing::Values(ShrinkWay{"threads", "shm", false, "off", false},
                                           ShrinkWay{"shm", "shm", true, "off", false},
                                           ShrinkWay{"tcp", "tcp", true, "off", false}),
                         [](const auto& info) { return std::string(info.param.name); });

/// One thread calls for several ranks.
void shrink_in_group(const std::vector<tuttiComm_t>& comms, const std::vector<int>& exclude,
                     std::vector<tuttiComm_t>* made) {
  made->assign(comms.size(), nullptr);
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  for (std::size_t i = 0; i < comms.size(); ++i)
    EXPECT_EQ(shrink_without(exclude, comms[i], &(*made)[i]), tuttiSuccess) << tuttiGetLastError(comms[i]);
  for (const tuttiComm_t one : *made) EXPECT_EQ(one, nullptr) << "nothing is made before the group ends";
  ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError(nullptr);
  for (const tuttiComm_t one : *made) EXPECT_NE(one, nullptr);
}

/// The same for a sum over what it made of ranks 0, 1, ...
void expect_sum_in_group(const std::vector<tuttiComm_t>& comms) {
  std::vector<int> values(comms.size(), 0);
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  for (std::size_t i = 0; i < comms.size(); ++i) {
    values[i] = 1 << i;
    EXPECT_EQ(tuttiAllReduce(&values[i], &values[i], 1, tuttiInt32, tuttiSum, comms[i], nullptr), tuttiSuccess);
  }
  ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError(nullptr);
  EXPECT_EQ(values, std::vector<int>(comms.size(), (1 << comms.size()) - 1));
}

TEST(ShrinkGroup, SeveralRanksOfOneThread) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  std::vector<tuttiComm_t> comms(3), made;
  ASSERT_EQ(tuttiCommInitAll(comms.data(), 3, nullptr), tuttiSuccess);
  shrink_in_group(comms, {}, &made);
  expect_sum_in_group(made);
  expect_sum_in_group(comms);
  std::vector<tuttiComm_t> fewer;
  shrink_in_group({comms[0], comms[1]}, {2}, &fewer);
  expect_sum_in_group(fewer);
  char text[20] = {};
  EXPECT_EQ(tuttiCommGetInfo(fewer[1], "members", text, sizeof text), tuttiSuccess);
  EXPECT_EQ(std::string(text), "0 1");
  expect_shrink_leaves_out(comms[2]);
  EXPECT_EQ(tuttiCommDestroy(comms[2]), tuttiRemoteError);
  for (const tuttiComm_t one : {comms[0], comms[1], fewer[0], fewer[1], made[0], made[1], made[2]})
    EXPECT_EQ(tuttiCommDestroy(one), tuttiSuccess) << tuttiGetLastError(nullptr);
}

// The two are shrunk in one group, and each leaves out another rank.
TEST(ShrinkGroup, SeveralCommunicators) {
  const ScopedSetting quiet("TUTTI_LOG", "error");
  std::atomic<int> summed{0};
  run_threads(3, [&](tuttiComm_t comm, int rank) {
    tuttiComm_t turned = nullptr, made[2] = {};
    ASSERT_EQ(tuttiCommSplit(comm, 0, -rank, &turned, nullptr), tuttiSuccess);  // rank r is 2 - r there
    expect_sum(turned, rank, {0, 1, 2});
    ++summed;
    await([&] { return summed == 3; }, "all sums, which a revocation could end");
    if (rank == 0) {
      expect_left_out(max_of(comm), comm);
    } else {
      ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
      EXPECT_EQ(shrink_without({0}, comm, &made[0]), tuttiSuccess);
      EXPECT_EQ(shrink_without({2}, turned, &made[1]), tuttiSuccess);
      ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError(nullptr);
      expect_shrunk(made[0], rank, {1, 2});
      expect_shrunk(made[1], 2 - rank, {0, 1});
      for (const tuttiComm_t one : made) EXPECT_EQ(tuttiCommDestroy(one), tuttiSuccess) << tuttiGetLastError(nullptr);
    }
    (void)tuttiCommDestroy(turned);
    (void)tuttiCommDestroy(comm);
  });
}

}  // namespace
}  // namespace tutti::test

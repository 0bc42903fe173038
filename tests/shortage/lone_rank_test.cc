// A process whose only rank lacks memory at any point of the beginning of a join: nothing of the library stays.
// Covers comm/membership/hub.cc, comm/join/join_task.cc.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "comm/join/join.h"
#include "comm/membership/hub.h"
#include "shortage/shortage.h"
#include "support/await.h"
#include "support/shared_memory.h"

namespace tutti::test {
namespace {

/// In a process of its own. The exit code is 0 if all is well, else it says what is not.
[[noreturn]] void join_alone(long k, long* requests) {
  const auto expect = [](bool right, int code) {
    if (!right) ::_exit(code);
  };
  tuttiUniqueId id;
  expect(tuttiGetUniqueId(&id) == tuttiSuccess, 2);
  tuttiComm_t comm = nullptr;
  make_scarce(Scarce::kMemory, k, false);
  const tuttiResult_t joined = tuttiCommInitRank(&comm, 1, id, 0);
  *requests = end_scarcity(Scarce::kMemory);
  if (joined == tuttiSuccess) {
    (void)tuttiCommDestroy(comm);  // it may tell of what the service thread left undone
  } else {
    IdBytes bytes;
    std::memcpy(bytes.data(), id.internal, sizeof id.internal);
    withdraw_unique_id(Settings{}, bytes);  // the root may not have heard of the join
  }
  expect(wait_for_no_hub(std::chrono::seconds(20)), 3);
  ::_exit(0);
}

/// Later ones meet the root, whose connections have their own time to end.
constexpr long kRequestsOfTheBeginning = 120;

TEST(ShortageOfALoneRank, LeavesNoServiceThread) {
  const SharedMemory<long> requests;
  long k = 1;
  for (*requests = 1; k <= std::min(*requests, kRequestsOfTheBeginning); ++k) {
    const pid_t child = ::fork();
    if (child == 0) join_alone(k, &*requests);
    ASSERT_EQ(await_end(child), 0) << "request " << k << " of " << *requests;
  }
  EXPECT_GT(k, 50) << "the case checks nothing";
  RecordProperty("requests", static_cast<int>(k - 1));
}

}  // namespace
}  // namespace tutti::test

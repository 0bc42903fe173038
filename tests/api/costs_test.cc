// TUTTI_COSTS: what rank 0 says holds for all ranks, and for what is made of the communicator.
// Covers comm/create.cc, comm/split.cc, collectives/choice/automatic_choice.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "support/ranks.h"

namespace tutti::test {
namespace {

std::string chosen(tuttiComm_t comm) {
  char text[64] = "";
  EXPECT_EQ(tuttiCommGetInfo(comm, "algorithm:all_to_all:64", text, sizeof text), tuttiSuccess);
  return text;
}

/// A file by which the fewest messages are best.
class CostsFile {
 public:
  CostsFile() {
    const int made = ::mkstemp(name_);
    EXPECT_GE(made, 0);
    ::close(made);
    std::ofstream(name_) << "shm.send_overhead 2000000000\nshm.recv_overhead 2000000000\ncores 64\n";
  }
  ~CostsFile() { remove(); }
  void remove() const { std::remove(name_); }
  const char* name() const { return name_; }

 private:
  char name_[32] = "/tmp/tutti-test-XXXXXX";
};

TEST(Costs, OfRankZeroHoldForAllAndForSplits) {
  const CostsFile file;
  constexpr int kRanks = 5;
  Processes ranks(
      kRanks,
      [](tuttiComm_t comm, int rank, Shared&) {
        EXPECT_EQ(chosen(comm), "bruck");
        ::setenv("TUTTI_COSTS", "/nowhere", 1);
        tuttiComm_t part = nullptr;
        ASSERT_EQ(tuttiCommSplit(comm, 0, -rank, &part, nullptr), tuttiSuccess) << tuttiGetLastError(comm);
        EXPECT_EQ(chosen(part), "bruck");
        EXPECT_EQ(tuttiCommDestroy(part), tuttiSuccess);
        EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
      },
      [&](int rank) { ::setenv("TUTTI_COSTS", rank == 0 ? file.name() : "builtin", 1); });
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(ranks.wait(rank), 0) << rank;
}

TEST(Costs, AFileThatCannotBeReadEndsTheJoin) {
  tuttiUniqueId id;
  ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  tuttiComm_t comm = nullptr;
  {
    const ScopedSetting setting("TUTTI_COSTS", "/dev/zero");
    EXPECT_EQ(tuttiCommInitRank(&comm, 1, id, 0), tuttiInvalidArgument);
    EXPECT_NE(std::string(tuttiGetLastError(nullptr)).find("TUTTI_COSTS"), std::string::npos);
  }
  ASSERT_EQ(tuttiCommInitRank(&comm, 1, id, 0), tuttiSuccess) << "the id is as good as before";
  EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
}

}  // namespace
}  // namespace tutti::test

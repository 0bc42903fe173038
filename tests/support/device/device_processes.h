// Ranks in several processes that each use GPUs of their own, or share some: every process has a stand-in driver.
#pragma once

#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "support/device/settled.h"
#include "support/device/stand_in_driver.h"
#include "support/ranks.h"

namespace tutti::test {

struct DeviceLayout {
  int processes = 2;
  int ranks_each = 1;
  int gpus_each = 1;         ///< that a process sees; its ranks use them in turn
  bool same_gpus = false;    ///< all processes see the same ones
  bool interleaved = false;  ///< rank r lives in process r mod processes, else neighbours share one
  double join_timeout = kFarSeconds;
  std::function<void(int process)> before = {};  ///< in each process, before its ranks join

  int ranks() const { return processes * ranks_each; }
  int process_of(int rank) const { return interleaved ? rank % processes : rank / ranks_each; }
  int rank_of(int process, int index) const {
    return interleaved ? index * processes + process : process * ranks_each + index;
  }
};

/// What a rank does, on a thread of its own whose device is set; it destroys the communicator. nullptr: the join
/// failed, and Shared has the result and the text.
using DeviceBody = std::function<void(tuttiComm_t comm, int rank, Shared& shared)>;

/// As Processes. The stand-in of the process that forks ends: a child would have a copy of it without its threads.
class DeviceProcesses : public RankProcesses {
 public:
  DeviceProcesses(const DeviceLayout& layout, const DeviceBody& body) : RankProcesses(&end_it), layout_(layout) {
    for (int process = 0; process < layout.processes; ++process) start([&, process] { run(process, body); });
  }

  Shared& shared() { return *shared_; }
  std::string text(int rank) const { return shared_->text[rank]; }

 private:
  static void end_it() {
    settle_stand_in();
    if (is_stand_in_there()) {
      EXPECT_EQ(stand_in().allocations(), 0u) << "of earlier cases";
    }
    end_stand_in();
  }

  void run(int process, const DeviceBody& body) {
    if (process == layout_.process_of(0)) shared_->id.make();
    (void)shared_->id.take();
    stand_in().set_devices(layout_.gpus_each);
    stand_in().be_seen_as(layout_.same_gpus ? 0 : process * layout_.gpus_each);
    if (layout_.before) layout_.before(process);
    std::vector<std::thread> threads;
    for (int index = 0; index < layout_.ranks_each; ++index)
      threads.emplace_back([&, index] { join(layout_.rank_of(process, index), index, body); });
    for (std::thread& thread : threads) thread.join();
  }

  void join(int rank, int index, const DeviceBody& body) {
    StandInDriver::use(index % layout_.gpus_each);
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.joinTimeoutSeconds = layout_.join_timeout;
    tuttiComm_t comm = nullptr;
    const tuttiResult_t joined = tuttiCommInitRankConfig(&comm, layout_.ranks(), shared_->id.take(), rank, &config);
    if (joined != tuttiSuccess) shared_->report(rank, joined, tuttiGetLastError(nullptr));
    body(comm, rank, *shared_);
  }

  const DeviceLayout layout_;
  const SharedMemory<Shared> shared_;
};

}  // namespace tutti::test

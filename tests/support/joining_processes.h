// Runs ranks as threads or as forked processes and collects what each of them reports.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "comm/join/join.h"
#include "comm/membership/hub.h"
#include "support/await.h"
#include "support/rank_processes.h"
#include "support/settle_threads.h"
#include "support/shared_memory.h"

namespace tutti::test {

/// What ranks share with the test: the id, marks to wait for, and each rank's report.
struct SharedPage {
  static constexpr int kMaxRanks = 16;
  struct Report {
    std::atomic<int> code{-1};  // -1: none yet
    char text[1000] = {};
  };
  std::atomic<bool> id_ready{false};
  IdBytes id{};
  std::atomic<int> marks[16] = {};
  Report reports[kMaxRanks];

  void publish(const IdBytes& value) {
    id = value;
    id_ready.store(true, std::memory_order_release);
  }
  /// Of nothing but zeros after the patience, by which nobody joins.
  IdBytes wait_for_id() const {
    const bool came = await([this] { return id_ready.load(std::memory_order_acquire); }, "the id of rank 0");
    return came ? id : IdBytes{};
  }
  void report(int rank, const Status& status) {
    std::strncpy(reports[rank].text, status.text().c_str(), sizeof(reports[rank].text) - 1);
    reports[rank].code.store(static_cast<int>(status.code()), std::memory_order_release);
  }
  Code code(int rank) const { return static_cast<Code>(reports[rank].code.load(std::memory_order_acquire)); }
  std::string text(int rank) const { return reports[rank].text; }
  void mark(int which) { marks[which].fetch_add(1, std::memory_order_acq_rel); }
  /// False after the patience, which is a failure.
  bool wait_for_mark(int which, int value) const {
    return await([&] { return marks[which].load(std::memory_order_acquire) >= value; },
                 fmt::format("mark {} to be {}", which, value));
  }
};

inline void expect_all_ok(const SharedPage& page, int ranks) {
  for (int rank = 0; rank < ranks; ++rank)
    EXPECT_EQ(page.code(rank), Code::kOk) << "rank " << rank << ": " << page.text(rank);
}

/// For what a rank reports: a failed condition as a status.
inline Status expect(bool condition, const std::string& what) {
  return condition ? Status() : fail(Code::kInternalError, "{}", what);
}

using RankMain = std::function<Status(int rank, SharedPage& page)>;

/// Forked ranks. The parent uses no hub, so that the children may.
class JoiningProcesses : public RankProcesses {
 public:
  JoiningProcesses() : RankProcesses(&settle) {}
  SharedPage& page() { return *page_; }

  /// Starts one more process; it reports what `main` returns, then ends in order, with 0 if it waited for nothing in
  /// vain.
  void start(int rank, const RankMain& main) {
    RankProcesses::start(
        [&] {
          page_->report(rank, main(rank, *page_));
          settle_threads();
        },
        ProcessEnd::kWithExitHandlers);
  }
  void start_all(int ranks, const RankMain& main) {
    for (int rank = 0; rank < ranks; ++rank) start(rank, main);
  }
  /// Waits for the end of all processes. A process that was not killed must end with 0: sanitizers tell by that, too.
  void wait() {
    for (int index = 0; index < count(); ++index) {
      if (pid(index) <= 0) continue;
      const int end = RankProcesses::wait(index);
      EXPECT_TRUE(WIFSIGNALED(end) ? WTERMSIG(end) == SIGKILL : WEXITSTATUS(end) == 0) << "a rank ended with " << end;
    }
  }
  void kill(int index) { signal(index, SIGKILL); }

 private:
  static void settle() { EXPECT_TRUE(wait_for_no_hub(kPatience)) << "an earlier case left communicators or ids"; }

  const SharedMemory<SharedPage> page_;
};

/// Ranks as threads of this process; the reports of all are in the page afterwards.
inline void run_threads(int ranks, SharedPage& page, const RankMain& main) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([rank, &page, &main] { page.report(rank, main(rank, page)); });
  for (std::thread& thread : threads) thread.join();
}

inline constexpr Bytes kSegmentSize{64 * 1024};

/// A request with shared memory and a deadline that a healthy test never meets.
inline JoinRequest request_for(int rank, int ranks, const IdBytes& id, double seconds = kFarSeconds) {
  JoinRequest request;
  request.id = id;
  request.rank = Rank{rank};
  request.ranks = ranks;
  request.deadline = Deadline::in(seconds);
  request.segment_bytes = kSegmentSize;
  return request;
}

/// Rank 0 makes the id, the others wait for it in the page.
inline Status obtain_id(int rank, SharedPage& page, IdBytes* id) {
  if (rank == 0) {
    TUTTI_TRY(make_unique_id(Settings{}, id));
    page.publish(*id);
    return {};
  }
  *id = page.wait_for_id();
  return {};
}

inline Status join_by_page(int rank, int ranks, SharedPage& page, JoinResult* result) {
  IdBytes id;
  TUTTI_TRY(obtain_id(rank, page, &id));
  return join(request_for(rank, ranks, id), result);
}

/// Every rank calls itself a host of its own. Lost connections are tried again for ever, for all that a test can wait.
inline Status join_apart(int rank, int ranks, SharedPage& page, JoinResult* joined, double reconnect = 1000) {
  IdBytes id;
  TUTTI_TRY(obtain_id(rank, page, &id));
  JoinRequest request = request_for(rank, ranks, id);
  request.settings.host_id = "host " + std::to_string(rank);
  request.settings.reconnect_seconds = reconnect;
  return join(request, joined);
}

}  // namespace tutti::test

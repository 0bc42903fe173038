// A rank loses all its connections, of control and of data, to ranks of other hosts, again and again, and gets no
// memory, descriptor, thread or mapping at some point from the first loss on: it or another one says so, or all goes
// well.
// Covers comm/membership/peer_process.cc, comm/membership/data_connector.cc.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>

#include "shortage/points.h"
#include "support/connections.h"
#include "support/disturbed_job.h"

namespace tutti::test {
namespace {

// The last sum lets each rank know that the connections have come back. A goodbye that is said before is lost, and its
// rank is found dead (docs/design/rendezvous.md).
constexpr std::array<Job::Part, 12> kLossyJob{&Job::add,     &Job::add_much, &Job::cut,      &Job::add,
                                              &Job::add_cut, &Job::cut,      &Job::split,    &Job::cut,
                                              &Job::stream,  &Job::cut,      &Job::exchange, &Job::add};

/// A rank has at least so many connections when it is cut off: others may not have come back since the last time.
constexpr long kLeastCut = DisturbedJob::kRanks - 1;

/// What the victim's process tells the test beside its result.
struct Log {
  long cuts;
  char text[4000];
};

void keep_log(int, const char* line, void* user) {
  char* const text = static_cast<Log*>(user)->text;
  const std::size_t used = std::strlen(text);
  std::snprintf(text + used, sizeof Log::text - used, "\n%s", line);
}

class Reconnects : public ::testing::TestWithParam<std::tuple<Shortage, int>> {
 protected:
  Reconnects() {
    void* const memory = ::mmap(nullptr, sizeof(Log), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    log_ = static_cast<Log*>(memory);
  }
  ~Reconnects() override { ::munmap(log_, sizeof(Log)); }

  Ending run(long k) {
    const int victim = std::get<1>(GetParam());
    *log_ = Log{};
    job_.run(
        kLossyJob, [&](int rank) { begin(rank, k); }, [&](int rank) { return rank == victim ? end() : 0; });
    Ending ending;
    ending.orderly = true;
    for (int rank = 0; rank < DisturbedJob::kRanks; ++rank) {
      if (job_.end(rank) == 0 && job_.is_exact(rank)) continue;
      ending.orderly = false;
      ending.words += "rank " + std::to_string(rank) + " has a wrong result, or the wait status " +
                      std::to_string(job_.end(rank)) + "; ";
    }
    ending.successful = job_.is_success();
    ending.requests = job_.kept(victim);
    ending.words += job_.texts() + log_->text;
    if (k == kNever) {
      EXPECT_GE(log_->cuts, 5 * kLeastCut) << "there was nothing to cut";
    }
    return ending;
  }

 private:
  /// In the rank's process.
  void begin(int rank, long k) {
    const auto& [shortage, victim] = GetParam();
    be_a_host(rank);
    if (rank != victim) return;
    (void)tuttiSetLogCallback(&keep_log, log_);
    Job::at_cut = [this, k, scarce = shortage, is_first = true](int) mutable {
      if (std::exchange(is_first, false)) make_scarce(scarce.kind, k, scarce.lasting);
      log_->cuts += cut_connections();
    };
  }
  long end() {
    const long requests = end_scarcity(std::get<0>(GetParam()).kind);
    sigset_t blocked;
    ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    if (::sigismember(&blocked, SIGTERM) != 0) ::_exit(4);
    return requests;
  }

  const ScopedSetting level_{"TUTTI_LOG", "error"};
  const ScopedSetting reconnect_{"TUTTI_RECONNECT", "2"};
  const ScopedDeadlines deadlines_{5};
  DisturbedJob job_;
  Log* log_ = nullptr;
};

TEST_P(Reconnects, FailAtAnyPointWithAnError) {
  expect_errors_at_points(std::get<0>(GetParam()), [this](long k) { return run(k); });
}

// Rank 0 is dialled by the others, rank 2 dials them.
INSTANTIATE_TEST_SUITE_P(Of, Reconnects, ::testing::Combine(::testing::ValuesIn(kShortages), ::testing::Values(0, 2)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_rank" +
                                  std::to_string(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace tutti::test

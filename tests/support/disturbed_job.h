// A small job of three processes, for tests that disturb it at every point.
#pragma once

#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <span>
#include <string>

#include "support/await.h"
#include "support/job.h"
#include "support/meeting_id.h"
#include "support/rank_processes.h"
#include "support/scoped_setting.h"
#include "support/shared_memory.h"
#include "support/yardstick.h"

namespace tutti::test {

/// What the ranks of a job report, in memory that they share with the test.
struct JobReport {
  static constexpr int kRanks = 3;
  static constexpr int kNoResult = -1;
  MeetingId id;
  std::array<std::atomic<int>, kRanks> results{};
  std::array<std::atomic<long>, kRanks> kept{};
  std::array<std::atomic<bool>, kRanks> exact{};
  char texts[kRanks][1000] = {};

  JobReport() {
    for (auto& result : results) result = kNoResult;
  }
  /// A rank's part of the job; what `after` returns is kept.
  template <class After>
  void run(int rank, std::span<const Job::Part> parts, const After& after) {
    if (rank == 0) id.make();
    const Job job(id.take(), kRanks, rank, parts);
    const auto own = static_cast<std::size_t>(rank);
    std::strcpy(texts[rank], job.text());
    exact[own] = job.is_exact();
    kept[own] = after(rank);
    results[own] = job.result();
  }
};

/// What the processes report stays until the next run.
class DisturbedJob {
 public:
  static constexpr int kRanks = JobReport::kRanks;
  static constexpr int kNobody = -1;
  /// Called in a rank's process.
  using Before = std::function<void(int rank)>;
  using After = std::function<long(int rank)>;

  /// Waits for the ends of all ranks but `lost`, which does not end by itself. What `after` returns is kept.
  void run(std::span<const Job::Part> parts, const Before& before, const After& after, int lost = kNobody) {
    report_.reset();
    RankProcesses processes;
    for (int rank = 0; rank < kRanks; ++rank)
      processes.start(
          [&, rank] {
            (void)tuttiSetLogCallback([](int, const char*, void*) {}, nullptr);
            before(rank);
            report_->run(rank, parts, after);
          },
          ProcessEnd::kWithExitHandlers);
    const Yardstick yardstick;
    const auto began = std::chrono::steady_clock::now();
    for (int rank = 0; rank < kRanks; ++rank)
      if (rank != lost) ends_[static_cast<std::size_t>(rank)] = processes.wait(rank);
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    second_here_ = yardstick.limit(std::chrono::duration<double>(1)).count();
  }

  /// A tuttiResult_t, or -1 of a rank that did not get so far.
  int result(int rank) const { return report_->results[static_cast<std::size_t>(rank)]; }
  const char* text(int rank) const { return report_->texts[rank]; }
  long kept(int rank) const { return report_->kept[static_cast<std::size_t>(rank)]; }
  /// Whether what it received was right.
  bool is_exact(int rank) const { return report_->exact[static_cast<std::size_t>(rank)]; }
  bool is_success() const { return result(0) == 0 && result(1) == 0 && result(2) == 0; }
  /// The wait status.
  int end(int rank) const { return ends_[static_cast<std::size_t>(rank)]; }
  /// How long the ranks took to end.
  double seconds() const { return seconds_; }
  /// What a promise of one second may have taken on this machine meanwhile.
  double second_here() const { return second_here_; }
  std::string texts() const {
    std::string all;
    for (int rank = 0; rank < kRanks; ++rank)
      all += "\n  rank " + std::to_string(rank) + ": " + std::to_string(result(rank)) + " " + text(rank);
    return all + "\n  " + std::to_string(seconds_) + " s";
  }

 private:
  SharedMemory<JobReport> report_;
  std::array<int, kRanks> ends_{};
  double seconds_ = 0, second_here_ = 0;
};

/// How long calls and joins wait.
class ScopedDeadlines {
 public:
  explicit ScopedDeadlines(double seconds) : seconds_(std::to_string(seconds)) {}

 private:
  const std::string seconds_;
  const ScopedSetting call_{"TUTTI_TIMEOUT", seconds_.c_str()};
  const ScopedSetting join_{"TUTTI_JOIN_TIMEOUT", seconds_.c_str()};
};

/// Makes this process, of that rank, a host of its own.
inline void be_a_host(int rank) { ::setenv("TUTTI_HOSTID", ("host " + std::to_string(rank)).c_str(), 1); }

}  // namespace tutti::test

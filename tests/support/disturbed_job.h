// A small job of three processes, for tests that disturb it at every point.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <span>
#include <string>

#include "support/await.h"
#include "support/job.h"
#include "support/ranks.h"
#include "support/yardstick.h"

namespace tutti::test {

/// What the processes report stays until the next run.
class DisturbedJob {
 public:
  static constexpr int kRanks = 3;
  static constexpr int kNobody = -1;
  /// Called in a rank's process.
  using Before = std::function<void(int rank)>;
  using After = std::function<long(int rank)>;

  DisturbedJob() {
    void* const memory = ::mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    report_ = ::new (memory) Report{};
  }
  ~DisturbedJob() { ::munmap(report_, sizeof(Report)); }
  DisturbedJob(const DisturbedJob&) = delete;
  DisturbedJob& operator=(const DisturbedJob&) = delete;

  /// Waits for the ends of all ranks but `lost`, which does not end by itself. What `after` returns is kept.
  void run(std::span<const Job::Part> parts, const Before& before, const After& after, int lost = kNobody) {
    ::new (report_) Report{};
    for (auto& result : report_->results) result = kNoResult;
    std::array<pid_t, kRanks> children{};
    for (int rank = 0; rank < kRanks; ++rank)
      if (pid_t& child = children[static_cast<std::size_t>(rank)]; (child = ::fork()) == 0)
        run_rank(rank, parts, before, after);
    const Yardstick yardstick;
    const auto began = std::chrono::steady_clock::now();
    for (int rank = 0; rank < kRanks; ++rank)
      if (rank != lost) ends_[static_cast<std::size_t>(rank)] = await_end(children[static_cast<std::size_t>(rank)]);
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    second_here_ = yardstick.limit(std::chrono::duration<double>(1)).count();
    if (lost != kNobody) end_child(children[static_cast<std::size_t>(lost)]);
  }

  /// A tuttiResult_t, or kNoResult of a rank that did not get so far.
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
  static constexpr int kNoResult = -1;
  struct Report {
    tuttiUniqueId id;
    std::atomic<bool> id_ready;
    std::array<std::atomic<int>, kRanks> results;
    std::array<std::atomic<long>, kRanks> kept;
    std::array<std::atomic<bool>, kRanks> exact;
    char texts[kRanks][1000];
  };

  [[noreturn]] void run_rank(int rank, std::span<const Job::Part> parts, const Before& before, const After& after) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)tuttiSetLogCallback([](int, const char*, void*) {}, nullptr);
    before(rank);
    if (rank == 0) {
      if (tuttiGetUniqueId(&report_->id) != tuttiSuccess) ::_exit(4);
      report_->id_ready = true;
    }
    await_or_exit([this] { return report_->id_ready.load(); }, "the id");
    const Job job(report_->id, kRanks, rank, parts);
    const auto own = static_cast<std::size_t>(rank);
    std::strcpy(report_->texts[rank], job.text());
    report_->exact[own] = job.is_exact();
    report_->kept[own] = after(rank);
    report_->results[own] = job.result();
    std::exit(0);
  }

  Report* report_ = nullptr;
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

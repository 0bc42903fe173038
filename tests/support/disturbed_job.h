// A small job of three processes, one of which, or whose connections, misbehaves.
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
#include <string>

#include "support/await.h"
#include "support/job.h"
#include "support/patience.h"
#include "support/ranks.h"
#include "support/yardstick.h"

namespace tutti::test {

class Trial {
 public:
  static constexpr int kRanks = 3;
  static constexpr int kVictim = 1;  ///< whose connections or memory are disturbed; 0 serves the id

  Trial() {
    void* const memory = ::mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    report_ = static_cast<Report*>(memory);
  }
  ~Trial() { ::munmap(report_, sizeof(Report)); }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  /// `before` and `after`: around each rank's part, in its process; what `after` returns is kept.
  void run(const std::function<void(int rank)>& before, const std::function<long(int rank)>& after) {
    ::new (report_) Report{};
    for (auto& result : report_->results) result = kNoResult;
    std::array<pid_t, kRanks> children{};
    for (int rank = 0; rank < kRanks; ++rank)
      if (pid_t& child = children[static_cast<std::size_t>(rank)]; (child = ::fork()) == 0)
        run_rank(rank, before, after);
    const Yardstick yardstick;
    const auto began = std::chrono::steady_clock::now();
    for (std::size_t rank = 0; rank < kRanks; ++rank) ends_[rank] = await_end(children[rank]);
    seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    limit_ = kSlowest + yardstick.limit(std::chrono::duration<double>(1)).count();
  }

  int result(int rank) const { return report_->results[static_cast<std::size_t>(rank)]; }
  long kept(int rank) const { return report_->kept[static_cast<std::size_t>(rank)]; }
  bool is_exact(int rank) const { return report_->exact[static_cast<std::size_t>(rank)]; }
  bool is_success() const { return result(0) == 0 && result(1) == 0 && result(2) == 0; }
  /// The wait status.
  int end(int rank) const { return ends_[static_cast<std::size_t>(rank)]; }
  /// Whether all ended by their deadlines, of which one that has joined may meet several.
  bool is_timely() const { return seconds_ <= limit_; }
  std::string texts() const {
    std::string all;
    for (int rank = 0; rank < kRanks; ++rank)
      all += "\n  rank " + std::to_string(rank) + ": " + std::to_string(result(rank)) + " " + report_->texts[rank];
    return all + "\n  " + std::to_string(seconds_) + " s";
  }

 private:
  static constexpr int kNoResult = -1;
  static constexpr double kSlowest = 8;  // seconds, all of them spent with waiting for deadlines
  struct Report {
    tuttiUniqueId id;
    std::atomic<bool> id_ready;
    std::array<std::atomic<int>, kRanks> results;
    std::array<std::atomic<long>, kRanks> kept;
    std::array<std::atomic<bool>, kRanks> exact;
    char texts[kRanks][1000];
  };

  [[noreturn]] void run_rank(int rank, const std::function<void(int)>& before, const std::function<long(int)>& after) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)tuttiSetLogCallback([](int, const char*, void*) {}, nullptr);
    before(rank);
    if (rank == 0) {
      if (tuttiGetUniqueId(&report_->id) != tuttiSuccess) ::_exit(4);
      report_->id_ready = true;
    }
    await_or_exit([this] { return report_->id_ready.load(); }, "the id");
    const Job job(report_->id, kRanks, rank, {&Job::add, &Job::add_much, &Job::split, &Job::stream, &Job::exchange});
    const auto own = static_cast<std::size_t>(rank);
    std::strcpy(report_->texts[rank], job.text());
    report_->exact[own] = job.is_exact();
    report_->kept[own] = after(rank);
    report_->results[own] = job.result();
    std::exit(0);
  }

  Report* report_ = nullptr;
  std::array<int, kRanks> ends_{};
  double seconds_ = 0, limit_ = 0;
};

/// How long calls and joins wait.
class TrialDeadlines {
 public:
  explicit TrialDeadlines(double seconds) : seconds_(std::to_string(seconds)) {}

 private:
  const std::string seconds_;
  const ScopedSetting call_{"TUTTI_TIMEOUT", seconds_.c_str()};
  const ScopedSetting join_{"TUTTI_JOIN_TIMEOUT", seconds_.c_str()};
};

/// Where `apart`, each rank is a host of its own.
class TrialSettings {
 public:
  explicit TrialSettings(bool apart) : apart_(apart) {}
  void set_host(int rank) const {
    if (apart_) ::setenv("TUTTI_HOSTID", ("host " + std::to_string(rank)).c_str(), 1);
  }

 private:
  const bool apart_;
  const ScopedSetting quiet_{"TUTTI_LOG", "error"};
};

}  // namespace tutti::test

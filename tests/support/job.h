// A small job in which one thing of each kind happens, for tests that disturb it at every point.
#pragma once

#include <tutti/tutti.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <span>

namespace tutti::test {

/// One rank's part: it joins, does the parts in their order and ends. It stops at the first call that fails, and
/// aborts.
class Job {
 public:
  using Part = bool (Job::*)();
  /// What happens to the connections in cut() and add_cut(), by the rank that has come there. Set before the jobs
  /// begin.
  static inline std::function<void(int rank)> at_cut = [](int) {};

  Job(const tuttiUniqueId& id, int ranks, int rank, std::span<const Part> parts) : ranks_(ranks), rank_(rank) {
    if (!check(nullptr, tuttiCommInitRank(&comm_, ranks, id, rank))) return;
    const bool done = std::all_of(parts.begin(), parts.end(), [this](Part part) { return (this->*part)(); });
    const tuttiResult_t end = done ? tuttiCommDestroy(comm_) : tuttiCommAbort(comm_);
    if (done) (void)check(comm_, end);
    int count = 0;
    is_gone_ = !done || end == tuttiInvalidUsage || tuttiCommCount(comm_, &count) != tuttiSuccess;
  }
  /// Of the first call that failed.
  int result() const { return result_; }
  const char* text() const { return text_; }
  bool is_exact() const { return is_exact_; }
  /// False: Destroy has returned, and the communicator is still there.
  bool is_gone() const { return is_gone_; }

  bool add() { return add(comm_, nullptr, 1); }
  bool add_much() { return add(comm_, nullptr, kMost); }
  bool cut() {
    at_cut(rank_);
    return true;
  }
  /// The cut comes in the middle of a sum, when this rank adds the first values.
  bool add_cut() {
    tuttiRedOp_t sum{};
    is_cut_ = false;
    if (!check(comm_, tuttiRedOpCreateCustom(&sum, &add_and_cut, 1, this, comm_))) return false;
    const bool done = add(comm_, nullptr, kMost, sum);
    return check(comm_, tuttiRedOpDestroy(sum, comm_)) && done;
  }
  bool split() {
    tuttiComm_t part = nullptr;
    if (!check(comm_, tuttiCommSplit(comm_, 0, rank_, &part, nullptr))) return false;
    if (add(part, nullptr, 10)) return check(part, tuttiCommDestroy(part));
    (void)tuttiCommAbort(part);
    return false;
  }
  /// Who lacks something leaves the others to themselves, and they have no use for this communicator any more.
  bool shrink() {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.joinTimeoutSeconds = 1;
    tuttiComm_t made = nullptr;
    if (!check(nullptr, tuttiCommShrink(comm_, nullptr, 0, &made, &config, TUTTI_SHRINK_DEFAULT))) return false;
    int count = 0;
    if (check(made, tuttiCommCount(made, &count)) && count < ranks_) {
      (void)tuttiCommAbort(made);
      return check(comm_, tuttiBarrier(comm_, nullptr));
    }
    if (add(made, nullptr, 10)) return check(made, tuttiCommDestroy(made));
    (void)tuttiCommAbort(made);
    return false;
  }
  bool stream() {
    tuttiStream_t stream = nullptr;
    if (!check(nullptr, tuttiStreamCreate(&stream))) return false;
    const bool done = add(comm_, stream, 1000);
    return check(nullptr, tuttiStreamDestroy(stream)) && done;
  }
  /// Each rank sends to the next one.
  bool exchange() {
    constexpr std::size_t kCount = 1000;
    const int before = (rank_ + ranks_ - 1) % ranks_;
    int* const received = data_ + kCount;
    std::fill_n(data_, kCount, rank_);
    bool done = check(comm_, tuttiGroupStart());
    done = done && check(comm_, tuttiSend(data_, kCount, tuttiInt32, (rank_ + 1) % ranks_, comm_, nullptr));
    done = check(comm_, tuttiRecv(received, kCount, tuttiInt32, before, comm_, nullptr)) && done;
    if (!check(comm_, tuttiGroupEnd()) || !done) return false;
    expect_all(received, kCount, before);
    return true;
  }

 private:
  bool check(tuttiComm_t comm, tuttiResult_t result) {
    if (result == tuttiSuccess) return true;
    if (result_ == tuttiSuccess) {
      result_ = result;
      std::snprintf(text_, sizeof text_, "%s", tuttiGetLastError(comm));
    }
    return false;
  }
  bool add(tuttiComm_t comm, tuttiStream_t stream, std::size_t count, tuttiRedOp_t sum = tuttiSum) {
    std::fill_n(data_, count, rank_ + 1);
    if (!check(comm, tuttiAllReduce(data_, data_, count, tuttiInt32, sum, comm, stream))) return false;
    if (stream != nullptr && !check(comm, tuttiStreamSynchronize(stream))) return false;
    expect_all(data_, count, ranks_ * (ranks_ + 1) / 2);
    return true;
  }
  static void add_and_cut(const void* in, void* inout, std::size_t count, tuttiDataType_t, void* user) {
    Job& self = *static_cast<Job*>(user);
    if (!self.is_cut_.exchange(true)) self.cut();
    const int* const values = static_cast<const int*>(in);
    int* const sums = static_cast<int*>(inout);
    for (std::size_t i = 0; i < count; ++i) sums[i] += values[i];
  }
  void expect_all(const int* values, std::size_t count, int right) {
    is_exact_ = is_exact_ && std::all_of(values, values + count, [=](int value) { return value == right; });
  }

  static constexpr std::size_t kMost = 300'000;
  static inline thread_local int data_[kMost];  // a job asks for no memory of its own
  const int ranks_;
  const int rank_;
  tuttiComm_t comm_ = nullptr;
  int result_ = tuttiSuccess;
  std::atomic<bool> is_cut_{false};
  bool is_exact_ = true;
  bool is_gone_ = true;
  char text_[1000] = {};
};

inline constexpr std::array<Job::Part, 5> kWholeJob{&Job::add, &Job::add_much, &Job::split, &Job::stream,
                                                    &Job::exchange};

}  // namespace tutti::test

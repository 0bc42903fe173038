#include "ping.h"

#include <sched.h>

#include <chrono>
#include <new>
#include <thread>

namespace tutti::race {
namespace {

constexpr int kArrival = 20;
constexpr int kTrips = 1000;
constexpr int kSpins = 20000;

/// Spins, and yields when the two ranks share one core.
void wait_for(const std::atomic<std::uint64_t>& line, std::uint64_t value) {
  for (int spins = 0; line.load(std::memory_order_acquire) != value; ++spins) {
    if (spins >= kSpins) sched_yield();
  }
}

}  // namespace

Ping::Ping(MPI_Comm comm) {
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &size_);
  void* mine = nullptr;
  MPI_Win_allocate_shared(rank_ == 0 ? sizeof(Page) + alignof(Page) : 0, 1, MPI_INFO_NULL, comm, &mine, &window_);
  MPI_Aint bytes = 0;
  int unit = 0;
  void* base = nullptr;
  MPI_Win_shared_query(window_, 0, &bytes, &unit, &base);
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  const std::uintptr_t aligned = (address + alignof(Page) - 1) / alignof(Page) * alignof(Page);
  page_ = reinterpret_cast<Page*>(aligned);
  if (rank_ == 0) new (page_) Page{};
  MPI_Barrier(comm);
}

Ping::~Ping() { MPI_Win_free(&window_); }

double Ping::one_way_ns() {
  if (size_ < 2) return 0;
  ++rounds_;
  if (rank_ > 1) {
    while (page_->done.value.load(std::memory_order_acquire) < rounds_) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return page_->result.load(std::memory_order_relaxed);
  }
  auto start = std::chrono::steady_clock::now();
  for (int trip = 0; trip < kArrival + kTrips; ++trip) {
    // The first trips contain the wait for the other rank to arrive.
    if (trip == kArrival) start = std::chrono::steady_clock::now();
    ++sent_;
    if (rank_ == 0) page_->there.value.store(sent_, std::memory_order_release);
    wait_for(rank_ == 0 ? page_->back.value : page_->there.value, sent_);
    if (rank_ == 1) page_->back.value.store(sent_, std::memory_order_release);
  }
  if (rank_ == 0) {
    const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
    page_->result.store(elapsed.count() / (2.0 * kTrips), std::memory_order_relaxed);
    page_->done.value.store(rounds_, std::memory_order_release);
  } else {
    wait_for(page_->done.value, rounds_);
  }
  return page_->result.load(std::memory_order_relaxed);
}

State state_of(double before, double between, double after) {
  const bool near = before < kNearBelow && between < kNearBelow && after < kNearBelow;
  const bool far = before >= kNearBelow && between >= kNearBelow && after >= kNearBelow;
  return near ? State::kNear : far ? State::kFar : State::kMixed;
}

}  // namespace tutti::race

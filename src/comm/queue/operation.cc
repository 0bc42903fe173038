#include "comm/queue/operation.h"

#include <algorithm>
#include <exception>
#include <map>
#include <thread>
#include <utility>

#include "comm/stream_wait.h"

namespace tutti {

Operation::State Operation::poll(bool check) {
  try {
    return step(check);
  } catch (...) {
    if (is_elsewhere()) return state_;
    end(comm_->call_driver().failed_inside());
    return state_;
  }
}

Operation::State Operation::step(bool check) {
  if (is_elsewhere()) return watch();
  if (state_ == State::kQueued && !may_begin()) return state_;
  // After an abort the buffers are the caller's again. Not a byte more is read or written, however late this comes.
  if (comm_->failures().failed() && state_ != State::kEnded) {
    end(comm_->failures().status());
    return state_;
  }
  if (state_ == State::kQueued) {
    state_ = State::kRunning;
    if (!begin()) return state_;
  }
  if (state_ == State::kEnded) return state_;
  bool done = false;
  Status status = comm_->call_driver().advance(check, &done);
  if (!status.ok()) {
    end(std::move(status));
  } else if (done && call_.again()) {
    start();
  } else if (done) {
    end({});
  }
  return state_;
}

// A call on device memory is put after the kernels of earlier calls, so it need not wait for them.
bool Operation::may_begin() {
  if (!comm_->turns().is_turn(ticket_) || !has_place()) return false;
  return (call_.collective() && call_.arguments().on_device) || !comm_->kernels().is_running();
}

bool Operation::has_place() {
  if (memory_known_ || !call_.collective() || !comm_->device_calls().has_unknown_memory(call_.arguments())) return true;
  bool on_device = false;
  Status status = comm_->device_calls().resolve_memory_kind(call_.arguments(), &on_device);
  if (status.code() == Code::kInProgress) return false;
  if (!status.ok()) {
    end(std::move(status));
    return false;
  }
  comm_->call_driver().board().post_awaited(kNoRank);
  call_.place(on_device);
  return memory_known_ = true;
}

Operation::State Operation::watch() {
  if (state_ == State::kEnded) return state_;
  status_ = comm_->kernels().poll(*end_, launched_);
  if (status_.code() != Code::kInProgress) state_ = State::kEnded;
  return state_;
}

bool Operation::begin() {
  if (call_.collective() && !call_.prepare()) {
    end(comm_->failures().status());
    return false;
  }
  return start();
}

bool Operation::start() {
  CallDriver& driver = comm_->call_driver();
  bool nothing_to_run = false;
  Status status = call_.collective() ? comm_->begin(call_.arguments(), &nothing_to_run, gate_ != nullptr)
                                     : comm_->begin(call_.transfers());
  if (!status.ok() || nothing_to_run) {
    end(std::move(status));
    return false;
  }
  // The exchange of a packed call is on host memory and comes first, so the call itself keeps its gate.
  if (gate_ != nullptr && driver.running().way == RunningCall::Way::kStaged)
    comm_->device_calls().side()->staged()->follow(std::move(gate_));
  driver.start();
  return true;
}

void Operation::end(Status status) {
  comm_->call_driver().board().post_awaited(kNoRank);
  status_ = comm_->call_driver().finish(std::move(status), ticket_);
  gate_.reset();  // if the call has not begun, this lets the stream go on
  comm_->turns().notify();
  state_ = State::kEnded;
}

void Operation::give_up(Status why) {
  comm_->turns().give_up(ticket_);
  status_ = std::move(why);
  gate_.reset();
  state_ = State::kEnded;
}

void Operation::sleep() {
  Executor& executor = comm_->call_driver().executor();
  const std::uint64_t before = progress();
  if (poll(true) == State::kRunning && progress() == before) {
    executor.sleep(std::chrono::milliseconds{100});
  } else {
    executor.links().cancel_sleep();
  }
}

std::chrono::nanoseconds OperationLadder::nap(std::chrono::nanoseconds shortest, int ranks_per_core) const {
  constexpr std::chrono::nanoseconds kEach{50'000}, kLongest{20'000'000};
  const std::chrono::nanoseconds longest = std::min(ranks_per_core * kEach, kLongest);
  return std::max(shortest, std::min<std::chrono::nanoseconds>(ladder_.waited() / 8, longest));
}

bool OperationLadder::climb(bool moved) {
  if (moved) {
    ladder_.reset();
    checked_ = std::chrono::nanoseconds{0};
    check_due_ = false;
    return false;
  }
  const bool sleep = ladder_.climb() == Ladder::Rung::kSleep;
  const std::chrono::nanoseconds waited = ladder_.waited();
  check_due_ = waited - checked_ >= std::chrono::milliseconds{1};
  if (check_due_) checked_ = waited;
  return sleep;
}

namespace {

/// Gives up operations that have waited for too long for calls which the progress thread runs. An operation that waits
/// for another one of these is left alone, because that one runs here.
void give_up_late(const std::vector<std::unique_ptr<Operation>>& operations, StreamWaits* waits) {
  std::map<Communicator*, bool> all_queued;  // for each communicator with operations left
  for (const auto& operation : operations) {
    if (operation->state() == Operation::State::kEnded) continue;
    bool& queued = all_queued.try_emplace(&operation->comm(), true).first->second;
    queued = queued && operation->is_queued();
  }
  for (const auto& [comm, queued] : all_queued) {
    if (!queued) waits->end(*comm);
    const Status held_up = queued ? waits->check(*comm) : Status();
    if (held_up.ok()) continue;
    for (const auto& operation : operations)
      if (&operation->comm() == comm && operation->state() == Operation::State::kQueued) operation->give_up(held_up);
  }
}

/// Several executors cannot share one futex, so the thread naps, which bounds what a missed message costs. If only one
/// operation is left, and none is to come, it sleeps on that one's futex.
void sleep_on(const std::vector<std::unique_ptr<Operation>>& operations, bool complete, const OperationLadder& ladder) {
  Operation* only = nullptr;
  int left = 0, ranks_per_core = 1;
  for (const auto& operation : operations) {
    if (operation->state() == Operation::State::kEnded) continue;
    only = operation.get();
    ++left;
    ranks_per_core = std::max(ranks_per_core, operation->comm().ranks_per_core());
  }
  if (complete && left == 1 && only->can_sleep()) {
    only->links().announce_sleep();
    return only->sleep();
  }
  std::this_thread::sleep_for(ladder.nap(std::chrono::microseconds{500}, ranks_per_core));
}

}  // namespace

Status run_all(std::vector<std::unique_ptr<Operation>>* operations, const std::function<bool()>& add) {
  OperationLadder ladder;
  std::uint64_t before = 0;
  std::exception_ptr thrown;
  StreamWaits waits;
  for (bool complete = false;;) {
    try {
      complete = complete || add();
    } catch (...) {  // operations that have begun fail, and end in their turn
      thrown = std::current_exception();
      complete = true;
      for (const auto& operation : *operations) (void)operation->comm().failures().fail_call();
    }
    bool ended = complete;
    std::uint64_t moved = operations->size();
    for (const auto& operation : *operations) {
      if (operation->state() == Operation::State::kEnded) continue;
      ended = operation->poll(ladder.is_check_due()) == Operation::State::kEnded && ended;
      moved += operation->progress() + static_cast<std::uint64_t>(operation->state());
    }
    if (ended) break;
    if (ladder.is_check_due()) give_up_late(*operations, &waits);
    if (ladder.climb(moved != before)) sleep_on(*operations, complete, ladder);
    before = moved;
  }
  if (thrown) std::rethrow_exception(thrown);
  for (const auto& operation : *operations) TUTTI_TRY(operation->status());
  return {};
}

}  // namespace tutti

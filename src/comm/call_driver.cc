#include "comm/call_driver.h"

#include <chrono>
#include <utility>

#include "comm/progress_state.h"
#include "comm/stream_wait.h"

namespace tutti {

namespace {
/// A thread that waits for operations of the progress thread looks at their state so often.
constexpr std::chrono::milliseconds kTurnSlice{50};
}  // namespace

CallDriver::CallDriver(const Settings& settings, std::shared_ptr<const AutomaticChoice> choice, const Peers& peers,
                       FailureHandler& failures, WaitJudge& judge, Executor& host, LogSource source)
    : rank_(peers.rank()),
      failures_(failures),
      judge_(judge),
      host_(host),
      board_(host.links().board()),
      timeout_seconds_(settings.timeout_seconds),
      binder_(settings, std::move(choice), rank_, peers.ranks(), peers.far_count(), source) {
  running_.executor = &host_;
}

Status CallDriver::wait_until_quiet() {
  if (turns_.is_empty()) return {};
  TUTTI_TRY(ProgressState::refuse_wait());
  StreamWait wait(failures_, rank_, timeout());
  while (!turns_.wait_for_end(kTurnSlice)) TUTTI_TRY(wait.check());
  return {};
}

bool CallDriver::serve_unused_links() {
  if (!link_use_.try_begin()) return false;
  struct GivesBack {
    LinkUse& use;
    ~GivesBack() { use.give_back(); }
  } const gives_back{link_use_};
  if (failures_.failed()) return true;  // nothing may be read into or written from the caller's memory any more
  host_.links().make_progress();
  return host_.links().delivered();
}

std::size_t CallDriver::memory_bytes() {
  link_use_.begin();
  const std::size_t bytes = binder_.bytes() + host_.scratch_bytes();
  link_use_.end();
  return bytes;
}

Status CallDriver::prepare_to_begin() {
  link_use_.begin();
  if (failures_.failed() || judge_.alarmed()) TUTTI_TRY(failures_.before_call());
  if (closed_) return fail(Code::kInvalidUsage, "rank {} has finalized this communicator", rank_.value);
  binder_.forget();
  return {};
}

Status CallDriver::begin(const CallArguments& arguments, bool* nothing_to_run) {
  TUTTI_TRY(prepare_to_begin());
  post_call(arguments, RunningCall::Way::kHost, host_);
  *nothing_to_run = running_.is_empty();
  if (*nothing_to_run) return {};
  const Bytes block = binder_.bind(arguments, running_.call, &binder_.plans());
  binder_.bind_host_buffers(arguments, running_.call, block);
  return {};
}

Status CallDriver::begin(std::span<Transfer> transfers, RunningCall::Way way, Executor& executor) {
  TUTTI_TRY(prepare_to_begin());
  running_.call = Call{};
  running_.call.sequence = turns_.number();
  running_.call.collective = Collective::kSendRecv;
  running_.way = way;
  running_.executor = &executor;
  transfers_ = transfers;
  board_.begin_point_to_point(turns_.number());
  running_.timeout = timeout();
  judge_.begin();
  return {};
}

void CallDriver::post_call(const CallArguments& arguments, RunningCall::Way way, Executor& executor) {
  describe_call(arguments, turns_.begin_number(), &running_.call);
  running_.way = way;
  running_.executor = &executor;
  board_.begin(running_.call);
  running_.timeout = timeout();
  judge_.begin();
}

void CallDriver::post_memory_unknown(const CallArguments& arguments) {
  describe_call(arguments, turns_.number() + 1, &running_.call);
  running_.call.memory_unknown = true;
  running_.way = RunningCall::Way::kHost;
  running_.executor = &host_;
  board_.begin(running_.call);
  running_.timeout = timeout();
  judge_.begin();
}

std::uint64_t CallDriver::begin_finalize() {
  const std::uint64_t last = turns_.number();
  binder_.forget();
  running_.call = Call{};
  running_.call.sequence = last + 1;
  running_.call.collective = Collective::kFinalize;
  running_.timeout = timeout();
  board_.begin(running_.call);
  return last;
}

Status CallDriver::run_begun() {
  return running_.is_point_to_point() ? executor().run(transfers_, judge_) : executor().run(binder_.launch(), judge_);
}

void CallDriver::start() {
  if (running_.is_point_to_point()) {
    executor().start(transfers_);
  } else {
    executor().start(binder_.launch());
  }
}

Status CallDriver::advance(bool check, bool* done) {
  const Progress progress = executor().advance();
  *done = progress == Progress::kDone;
  if (*done || (progress == Progress::kAgain && !check && !judge_.alarmed())) return {};
  if (check) executor().links().make_progress();  // the awaited peer may wait for other connections of this rank
  board_.post_awaited(executor().awaited());
  return judge_.check(executor().awaited(), executor().progress());
}

Status CallDriver::finish(Status status, std::uint64_t ticket) {
  if (!status.ok()) [[unlikely]]
    return finish_failed(std::move(status), ticket);
  finish_well(ticket);
  return status;
}

// A failed call is not shown as ended on the board, because peers that wait for its end hear the cause. A refused call
// has not begun.
Status CallDriver::finish_failed(Status status, std::uint64_t ticket) {
  if (status.code() != Code::kInvalidUsage || failures_.failed()) {
    link_use_.begin();  // if the communicator has failed before the operation began
    status = failures_.fail_for_good(std::move(status), kNoRank);
    executor().abandon();
  }
  link_use_.end();
  turns_.end(ticket);
  return status;
}

// Memory can run out in the middle of an operation, and a function of the caller's can throw anything. The ticket is
// given back all the same.
Status CallDriver::failed_inside() const noexcept {
  try {
    return what_was_thrown(fmt::format("{} of rank {}", judge_.what_runs(), rank_.value));
  } catch (...) {
    return no_memory();
  }
}

}  // namespace tutti

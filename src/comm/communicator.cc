#include "comm/communicator.h"

#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/catalogue.h"
#include "comm/failure/finalization.h"
#include "comm/progress_state.h"
#include "comm/stream_wait.h"
#include "core/no_cancel.h"

namespace tutti {

namespace {
/// Between two looks, of a thread that waits for operations that the progress thread runs.
constexpr std::chrono::milliseconds kTurnSlice{50};
}  // namespace

Communicator::Communicator(const Settings& settings, std::string name, JoinResult&& joined,
                           std::unique_ptr<Executor>&& executor, std::shared_ptr<const AutomaticChoice> choice,
                           Oversubscription oversubscription)
    : settings_(settings),
      timeout_seconds_(settings.timeout_seconds),
      name_(std::move(name)),
      joined_(std::move(joined)),
      oversubscription_(std::move(oversubscription)),
      executor_(std::move(executor)),
      board_(executor_->board()),
      rank_(joined_.membership->rank()),
      ranks_(joined_.membership->ranks()),
      peers_(*joined_.membership, *executor_),
      failures_(*joined_.membership, log_source(), {[this] { stop_kernels(); }, [this] { wake(); }}),
      call_check_(settings, rank_, ranks_),
      binder_(settings, std::move(choice), rank_, ranks_, static_cast<int>(peers_.far().size()), log_source()),
      judge_(peers_, failures_, running_, *executor_, settings.reconnect_seconds, log_source()),
      kernels_(peers_, failures_, judge_) {
  running_.executor = executor_.get();
  board_.open();
}

void Communicator::start_listening() {
  joined_.membership->set_listener([this] { listen(); });
  if (machine().network) joined_.membership->set_board(&board_);
}

Communicator::~Communicator() {
  joined_.membership->set_listener({});
  joined_.membership->set_board(nullptr);
}

const char* Communicator::transport() const {
  if (settings_.transport == TransportKind::kInproc) return "inproc";
  if (!machine().network) return "shm";
  return static_cast<int>(peers_.far().size()) == ranks_ - 1 ? "tcp" : "shm and tcp";
}

void Communicator::adopt(std::unique_ptr<DeviceSide> device) {
  device_ = std::move(device);
  if (device_ != nullptr) kernels_.adopt(device_->executor(), device_->spans_processes());
}

void Communicator::listen() {
  judge_.raise_alarm();
  executor_->wake();
}

void Communicator::stop_kernels() {
  if (device_ != nullptr) device_->stop_kernels();
}

void Communicator::wake() {
  listen();
  turns_.announce();
}

Status Communicator::check(CallArguments* arguments) const {
  TUTTI_TRY(call_check_.complete(arguments));
  return device_ == nullptr ? Status{} : device_->locate(arguments, rank_.value);
}

Status Communicator::check(const Transfer& transfer) const {
  TUTTI_TRY(call_check_.check(transfer));
  return device_ == nullptr ? Status{} : device_->locate(transfer);
}

Status Communicator::run(CallArguments* call) {
  if (failures_.failed()) [[unlikely]]
    return failures_.status();
  const CallArguments& arguments = *call;
  if (turns_.is_empty() && binder_.is_repeat(arguments, running_.call) &&
      (device_ == nullptr || device_->is_on_host(arguments))) {
    if (!binder_.has_same_buffers(arguments)) TUTTI_TRY(call_check_.check(arguments));
    // Among ranks that share memory a repeated call has no cancellation point, unless it waits for long: see
    // WaitJudge::check().
    const NoCancel no_cancel(!peers_.far().empty() || device_ != nullptr || arguments.op >= kRedOps);
    const std::uint64_t ticket = turns_.take();
    begin_again(arguments);
    return finish(run_launch(), ticket);
  }
  const NoCancel no_cancel;
  TUTTI_TRY(check(call));
  if (arguments.on_device || arguments.staged) [[unlikely]]
    TUTTI_TRY(check_blocking(arguments));
  if (!turns_.is_empty()) [[unlikely]]
    TUTTI_TRY(wait_until_quiet());
  const std::uint64_t ticket = turns_.take();
  Status status;
  bool empty = false;
  try {
    if (has_unknown_memory(arguments)) [[unlikely]]
      status = wait_for_memory_kind(call);
    if (!arguments.on_device && kernels_.is_running())
      (void)kernels_.wait(running_.call);  // begin() tells of a failure
    if (status.ok()) status = begin(arguments, &empty);
  } catch (...) {
    status = failed_inside();
  }
  if (status.ok() && !empty) status = run_launch();
  return finish(std::move(status), ticket);
}

Status Communicator::run_launch() {
  try {
    return running_.executor->run(binder_.launch(), judge_);
  } catch (...) {
    return failed_inside();
  }
}

Status Communicator::run(std::span<Transfer> transfers) {
  if (failures_.failed()) return failures_.status();
  for (const Transfer& transfer : transfers) TUTTI_TRY(check(transfer));
  TUTTI_TRY(check_blocking(transfers));
  TUTTI_TRY(wait_until_quiet());
  const std::uint64_t ticket = turns_.take();
  Status status;
  try {
    if (kernels_.is_running()) (void)kernels_.wait(running_.call);  // begin() tells of a failure
    status = begin(transfers);
    if (status.ok()) status = running_.executor->run(transfers, judge_);
  } catch (...) {
    status = failed_inside();
  }
  return finish(std::move(status), ticket);
}

Status Communicator::begin(std::span<Transfer> transfers) {
  if (failures_.failed()) return failures_.status();
  if (finalized_) return fail(Code::kInvalidUsage, "rank {} has finalized this communicator", rank_.value);
  binder_.forget();
  const bool staged = device_ != nullptr && device_->any_on_device(transfers);
  run_on(staged ? RunningCall::Way::kStaged : RunningCall::Way::kHost);
  running_.call = Call{};
  running_.call.sequence = turns_.number();
  running_.call.collective = Collective::kSendRecv;
  board_.begin_peers(turns_.number());
  running_.timeout = timeout();
  judge_.begin();
  return {};
}

RunningCall::Way Communicator::way_of(const CallArguments& arguments) {
  if (arguments.staged) return RunningCall::Way::kStaged;
  return arguments.on_device ? RunningCall::Way::kDevice : RunningCall::Way::kHost;
}

void Communicator::run_on(RunningCall::Way way) {
  running_.way = way;
  running_.executor = executor_.get();
  if (way == RunningCall::Way::kStaged) running_.executor = device_->staged();
  if (way == RunningCall::Way::kDevice) running_.executor = device_->executor();
}

Status Communicator::may_begin() {
  if (failures_.failed()) return failures_.status();
  if (finalized_) return fail(Code::kInvalidUsage, "rank {} has finalized this communicator", rank_.value);
  binder_.forget();
  return kernels_.look_at_graphs();
}

Status Communicator::begin(const CallArguments& arguments, bool* empty, bool placed) {
  TUTTI_TRY(may_begin());
  if (!placed && (arguments.on_device || arguments.staged)) [[unlikely]]
    TUTTI_TRY(device_->follow_default_stream(arguments, turns_.number() + 1));
  describe_call(arguments, turns_.begin_number(), &running_.call);
  board_.begin(running_.call);
  running_.timeout = timeout();
  judge_.begin();
  run_on(way_of(arguments));
  *empty = running_.call.count == 0 && arguments.collective != Collective::kBarrier &&
           arguments.collective != Collective::kAllToAllV;  // of which nobody knows all counts
  if (*empty) return {};
  const Bytes block =
      binder_.bind(arguments, running_.call, arguments.on_device ? &device_->plans() : &binder_.plans());
  if (arguments.on_device || arguments.staged) [[unlikely]]
    return bind_staged(arguments);
  binder_.bind_host_buffers(arguments, running_.call, block);
  return {};
}

void Communicator::begin_again(const CallArguments& arguments) {
  if (!binder_.has_same_root(arguments)) binder_.change_root(arguments, &running_.call);
  running_.call.sequence = turns_.begin_number();
  board_.begin(running_.call);
  running_.timeout = timeout();
  judge_.begin();
  binder_.bind_again(arguments, running_.call);
}

Status Communicator::finish(Status status, std::uint64_t ticket) {
  if (!status.ok() && status.code() != Code::kInvalidUsage) [[unlikely]]
    status = failures_.fail_for_good(std::move(status), kNoRank);
  // A call that failed has not ended for the peers: who waits for its end hears the cause. One that was refused has not
  // begun.
  if (status.ok()) [[likely]] {
    board_.end(turns_.number());
  } else if (status.code() != Code::kInvalidUsage) {
    running_.executor->abandon();
  }
  turns_.end(ticket);
  return status;
}

// Memory can run out in the middle of an operation, and a function of the caller's can throw what it likes; the ticket
// is given back all the same.
Status Communicator::failed_inside() const noexcept {
  try {
    return what_was_thrown(fmt::format("{} of rank {}", judge_.what_runs(), rank_.value));
  } catch (...) {
    return no_memory();
  }
}

Status Communicator::wait_until_quiet() {
  if (turns_.is_empty()) return {};
  TUTTI_TRY(ProgressState::refuse_wait());
  StreamWait wait(*this);
  while (!turns_.wait_for_end(kTurnSlice)) TUTTI_TRY(wait.check());
  return {};
}

// Finalize is a collective that moves nothing.
Status Communicator::finalize() {
  if (const Status status = wait_until_quiet(); !status.ok() && !failures_.failed()) return status;
  if (finalized_) return fail(Code::kInvalidUsage, "rank {} has finalized this communicator before", rank_.value);
  finalized_ = true;
  if (failures_.failed()) return failures_.status();
  TUTTI_TRY(kernels_.wait(running_.call));
  const std::uint64_t last = turns_.number();
  binder_.forget();
  running_.call = Call{};
  running_.call.sequence = last + 1;
  running_.call.collective = Collective::kFinalize;
  running_.timeout = timeout();
  board_.begin(running_.call);
  membership().publish_board();
  const bool spans_processes = device_ != nullptr && device_->spans_processes();
  const Status status = Finalization(peers_, failures_, judge_, *executor_, last, spans_processes).run();
  board_.end(last + 1);
  membership().say_goodbye(last);
  return status;
}

Status Communicator::async_error() {
  if (failures_.failed()) return failures_.status();
  TUTTI_TRY(kernels_.look_at_graphs());
  TUTTI_TRY(failures_.adopt_cause());
  TUTTI_TRY(judge_.look_for_past_disagreement(board_.state().sequence));
  for (Rank peer{0}; peer.value < ranks_; ++peer) {
    if (peers_.liveness(peer) != Liveness::kDead) continue;
    TUTTI_TRY(failures_.adopt_cause());  // whoever died after giving a cause gave it before it died
    return fail(Code::kRemoteError, "rank {} ({}) died", peer.value, peers_.describe(peer));
  }
  return {};
}

Status Communicator::algorithm_for(Collective collective, Bytes bytes, bool on_device, std::string* text) {
  if (on_device) TUTTI_TRY(device_transport(text));
  TUTTI_TRY(wait_until_quiet());  // the plans are the running operation's
  PlanCache& plans = on_device && device_->executor() != nullptr ? device_->plans() : binder_.plans();
  if (on_device) *text = device_->describe_levels(collective, bytes);
  if (on_device && !text->empty()) return {};
  const Plan plan = plans.find(collective, bytes, is_rooted(collective) ? 0 : -1);
  *text = plan.schedule->algorithm->name;
  return {};
}

Status Communicator::algorithms_of(Collective collective, std::string* text) const {
  text->clear();
  for (const Algorithm& algorithm : catalogue())
    if (algorithm.collective == scheduled_as(collective) && binder_.plans().offers(collective, algorithm.name))
      *text += (text->empty() ? "" : ",") + std::string(algorithm.name);
  return {};
}

Status Communicator::host_bytes(std::uint64_t* bytes) {
  TUTTI_TRY(wait_until_quiet());
  const std::size_t staged = device_ == nullptr ? 0 : device_->staging_memory().value;
  *bytes = binder_.bytes() + executor_->scratch_bytes() + staged;
  return {};
}

Status Communicator::device_bytes(std::uint64_t* bytes) {
  TUTTI_TRY(wait_until_quiet());
  *bytes = device_ == nullptr ? 0 : device_->device_memory().value;
  return {};
}

Settings Communicator::settings() const {
  Settings now = settings_;
  now.timeout_seconds = timeout_seconds_.load(std::memory_order_relaxed);
  return now;
}

std::uint64_t Communicator::shared_bytes() const {
  const std::shared_ptr<Segment>& own =
      joined_.segments.empty() ? nullptr : joined_.segments[static_cast<std::size_t>(rank_.value)];
  if (own == nullptr) return 0;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident(div_up(own->size().value, page));
  if (mincore(own->data(), own->size().value, resident.data()) != 0) return own->size().value;
  std::uint64_t pages = 0;
  for (const unsigned char flags : resident) pages += flags & 1;
  return pages * page;
}

}  // namespace tutti

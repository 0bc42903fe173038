#include "comm/device_calls.h"

#include <chrono>
#include <utility>

#include "comm/call/user_operation.h"
#include "comm/device/cuda_stream.h"
#include "comm/membership/hub.h"
#include "core/wait_until.h"
#include "kernels/kernels.h"

namespace tutti {

namespace {
/// Whether the call puts anything on its stream.
bool moves_data(const CallArguments& a) {
  return a.count != 0 || a.blocks != nullptr || a.collective == Collective::kBarrier;
}
/// From this block size on, in bytes, kernels leave messages in the caller's buffers. The kernel then ends when its
/// readers have read them, which is one trip later. It has not been measured on a GPU yet.
constexpr std::size_t kLentOnDeviceFrom = std::size_t{64} << 10;
/// The sleep between two looks whether other ranks have launched a call.
constexpr std::chrono::microseconds kLaunchNap{50};
/// In seconds: how much longer than the call a kernel waits. The host, which knows more, ends the wait first.
constexpr double kAfterTheHost = 5;

Status refuse_host_buffers() { return fail(Code::kInvalidUsage, "host buffers cannot go on a CUDA stream"); }
}  // namespace

void DeviceCalls::adopt(std::unique_ptr<DeviceSide> side) {
  side_ = std::move(side);
  if (exist()) kernels_.adopt(side_->executor(), side_->spans_processes());
}

void DeviceCalls::stop_kernels() {
  if (exist()) side_->stop_kernels();
}

Status DeviceCalls::run(CallArguments* call) {
  TUTTI_TRY(locate(call));
  TUTTI_TRY(check_blocking(*call));
  return driver_.run_in_turn([&](bool* nothing_to_run) -> Status {
    if (has_unknown_memory(*call)) TUTTI_TRY(wait_for_memory_kind(call));
    if (!call->on_device) wait_for_kernels();
    return begin(*call, nothing_to_run);
  });
}

Status DeviceCalls::run(std::span<Transfer> transfers) {
  for (const Transfer& transfer : transfers) TUTTI_TRY(locate(transfer));
  TUTTI_TRY(check_blocking(transfers));
  return driver_.run_in_turn([&](bool*) {
    wait_for_kernels();
    return begin(transfers);
  });
}

// A call that is not on device memory cannot be put after the kernels of earlier calls, so it waits for them. begin()
// reports a failure.
void DeviceCalls::wait_for_kernels() {
  if (kernels_.is_running()) (void)kernels_.wait(driver_.running().call);
}

Status DeviceCalls::begin(const CallArguments& arguments, bool* nothing_to_run, bool on_cuda_stream) {
  TUTTI_TRY(driver_.prepare_to_begin());
  TUTTI_TRY(kernels_.look_at_graphs());
  if (!arguments.on_device && !arguments.staged) return driver_.begin(arguments, nothing_to_run);
  if (!on_cuda_stream) TUTTI_TRY(side_->follow_default_stream(arguments, driver_.turns().number() + 1));
  if (arguments.staged) {
    driver_.post_call(arguments, RunningCall::Way::kStaged, *side_->staged());
  } else {
    driver_.post_call(arguments, RunningCall::Way::kDevice, *side_->executor());
  }
  *nothing_to_run = driver_.running().is_empty();
  if (*nothing_to_run) return {};
  TUTTI_TRY(arguments.on_device ? bind_kernel(arguments) : bind_staged(arguments));
  driver_.binder().launch().kernel_timeout = kernel_timeout(on_cuda_stream && !arguments.staged);
  return {};
}

Status DeviceCalls::begin(std::span<Transfer> transfers) {
  if (!side_->any_on_device(transfers)) return driver_.begin(transfers);
  return driver_.begin(transfers, RunningCall::Way::kStaged, *side_->staged());
}

Status DeviceCalls::begin_on(const CallArguments& arguments, const CudaStream& stream, bool* is_launched,
                             Call* launched) {
  DeviceExecutor* const executor = exist() ? side_->executor() : nullptr;
  if (executor == nullptr)
    return fail(Code::kUnsupported, "{}: the stream is a CUDA stream, and this communicator offers no device buffers{}",
                name_of(arguments.collective), exist() ? ": " + side_->why_not().text() : "");
  CallArguments call = arguments;
  if (!DeviceSide::has_memory(call, peers_.rank().value))
    call.on_device = true;  // nothing shows that it would be on host memory
  std::uint64_t capture = 0;
  TUTTI_TRY(executor->driver().capture_of(stream.handle(), &capture));
  if (!call.on_device)
    return fail(Code::kInvalidUsage, "{}: the buffers of rank {} are host memory, which cannot {}",
                name_of(call.collective), peers_.rank().value,
                capture == 0 ? "go on a CUDA stream" : "be used by a CUDA graph: it runs without the host");
  StreamKey place;
  TUTTI_TRY(stream.place_on(executor->device(), &place));
  place.capture = capture;
  TUTTI_TRY(driver_.wait_until_quiet());
  TUTTI_TRY(kernels_.wait_for_room(driver_.running().call));
  executor->note_thread();
  if (moves_data(call))
    TUTTI_TRY(side_->deadlock_check().enter(peers_.rank(), {&place, 1}, driver_.turns().next_number()));
  Status status = driver_.run_in_turn([&](bool* nothing_to_run) -> Status {
    TUTTI_TRY(begin(call, nothing_to_run, true));
    if (*nothing_to_run) return {};
    *nothing_to_run = true;  // the kernel runs without this thread
    TUTTI_TRY(executor->begin_launch(driver_.binder().launch(), stream.handle(), capture));
    *is_launched = true;
    if (capture != 0) watch_graphs();
    return {};
  });
  *launched = driver_.running().call;
  return status;
}

void DeviceCalls::watch_graphs() {
  if (watch_ != nullptr) return;
  watch_ =
      std::make_shared<GraphWatch>(peers_.membership().hub()->loop(), [this] { return kernels_.look_after_graphs(); });
  watch_->start();
}

void DeviceCalls::stop_watch() {
  if (watch_ != nullptr && !hub_forked()) watch_->stop();
}

// The kernel is there in any case, so what comes after it comes, too.
Status DeviceCalls::finish_on(std::shared_ptr<CallEnd>* ended) {
  DeviceExecutor& executor = *side_->executor();
  const Status waited = wait_for_launches(executor);
  const Status finished = executor.finish_launch(ended);
  return waited.ok() ? finished : waited;
}

// The streams of ranks that share a device may share a hardware queue. What is put there next, by this function or by
// the caller, may wait for this rank's kernel, and would hold up those that the kernel waits for.
Status DeviceCalls::wait_for_launches(DeviceExecutor& executor) {
  Rank missing = kNoRank;
  bool has_waited = false;
  const auto are_there = [&] { return (missing = executor.missing_launch()) == kNoRank; };
  const auto is_worth_it = [&](bool sleeps) {
    has_waited = has_waited || sleeps;
    return sleeps ? judge_wait_for(executor.number(missing)) : Status{};
  };
  const Status waited = wait_until(are_there, is_worth_it, WaitPace::yields(std::chrono::milliseconds{1}, kLaunchNap));
  if (has_waited) driver_.board().post_awaited(kNoRank);
  return waited;
}

void DeviceCalls::note_thread() {
  if (exist() && side_->executor() != nullptr) side_->executor()->note_thread();
}

bool DeviceCalls::launches(const CallArguments& arguments) const {
  return exist() && side_->executor() != nullptr && !arguments.staged;
}

// Every rank decides this alone, because the messages are those of a call on host memory.
Status DeviceCalls::stage_on(const CudaStream& stream, void* queue, const CallArguments& arguments,
                             std::shared_ptr<StreamGate>* gate) {
  if (!exist() || launches(arguments)) return {};
  if (!arguments.staged && DeviceSide::has_memory(arguments, peers_.rank().value)) return refuse_host_buffers();
  StreamKey places[2];
  TUTTI_TRY(open_stage(stream, &places[0]));
  places[1] = places[0];
  places[1].handle = queue;
  places[1].thread = 0;
  if (moves_data(arguments))
    TUTTI_TRY(side_->deadlock_check().enter(peers_.rank(), places, driver_.turns().next_number()));
  return side_->staged()->hold(places[0].device, stream.handle(), gate);
}

Status DeviceCalls::stage_on(const CudaStream& stream, std::span<const Transfer> transfers,
                             std::shared_ptr<StreamGate>* gate) {
  if (!exist()) return {};
  if (!side_->any_on_device(transfers)) return refuse_host_buffers();
  StreamKey place;
  TUTTI_TRY(open_stage(stream, &place));
  return side_->staged()->hold(place.device, stream.handle(), gate);
}

/// Gives the key of a stream that a call through host memory is put on.
Status DeviceCalls::open_stage(const CudaStream& stream, StreamKey* place) {
  std::uint64_t capture = 0;
  TUTTI_TRY(side_->driver().capture_of(stream.handle(), &capture));
  if (capture != 0)
    return fail(Code::kInvalidUsage,
                "what goes through host memory cannot be part of a CUDA graph, which runs without "
                "the host{}{}",
                side_->why_not().ok() ? "" : ": ", side_->why_not().text());
  TUTTI_TRY(side_->open_staging(-1));
  TUTTI_TRY(side_->staged()->check_queues());
  TUTTI_TRY(stream.place_on(side_->device_of_calls(), place));
  if (place->device < 0) place->device = side_->staged()->device();
  return {};
}

bool DeviceCalls::has_unknown_memory(const CallArguments& a) const {
  return a.collective == Collective::kAllToAllV && exist() && side_->executor() != nullptr && !a.on_device &&
         !a.staged && !DeviceSide::has_memory(a, peers_.rank().value);
}

// A rank that moves no data cannot tell device from host memory. It writes "unknown" on its board, and then takes the
// first definite answer that it finds on any other board. If all are unknown, nothing is moved, and the call runs on
// the host.
Status DeviceCalls::ask_memory_kind(const CallArguments& arguments) {
  const Call& call = driver_.running().call;
  if (call.sequence == driver_.turns().number() + 1 && call.memory_unknown) return {};  // the board shows it already
  TUTTI_TRY(driver_.prepare_to_begin());
  TUTTI_TRY(kernels_.look_at_graphs());
  driver_.post_memory_unknown(arguments);
  return {};
}

/// Whether the boards give the answer. If not, `awaited` is a rank that has not made the call.
bool DeviceCalls::find_memory_kind(bool* on_device, Rank* awaited) const {
  *on_device = false;
  *awaited = kNoRank;
  const BoardReader board = peers_.boards();
  for (Rank peer{0}; peer.value < peers_.ranks(); ++peer) {
    if (peer == peers_.rank()) continue;
    const PostedCall posted = board(peer)->find(driver_.running().call.sequence);
    if (posted.known && !posted.call.memory_unknown) {
      *on_device = posted.call.on_device;
      return true;
    }
    if (!posted.known && *awaited == kNoRank) *awaited = peer;
  }
  return *awaited == kNoRank;
}

Status DeviceCalls::judge_wait_for(Rank awaited) {
  driver_.host().links().make_progress();  // the links are this call's, and a peer may need again what it lost
  driver_.board().post_awaited(awaited);
  return judge_.check(awaited, 0);
}

Status DeviceCalls::resolve_memory_kind(const CallArguments& arguments, bool* on_device) {
  TUTTI_TRY(ask_memory_kind(arguments));
  Rank awaited;
  if (find_memory_kind(on_device, &awaited)) return {};
  TUTTI_TRY(judge_wait_for(awaited));
  return fail(Code::kInProgress, "rank {} has not made call {}", awaited.value, driver_.running().call.sequence);
}

Status DeviceCalls::wait_for_memory_kind(CallArguments* arguments) {
  TUTTI_TRY(ask_memory_kind(*arguments));
  Rank awaited;
  const auto is_known = [&] { return find_memory_kind(&arguments->on_device, &awaited); };
  const auto is_worth_it = [&](bool) { return judge_wait_for(awaited); };
  const Status waited = wait_until(is_known, is_worth_it, WaitPace{std::chrono::microseconds{200}});
  driver_.board().post_awaited(kNoRank);
  return waited;
}

Status DeviceCalls::bind_kernel(const CallArguments& arguments) {
  driver_.binder().bind(arguments, driver_.running().call, &side_->plans());
  Launch& launch = driver_.binder().launch();
  launch.input_memory = arguments.send_memory;
  launch.output_memory = arguments.recv_memory;
  if (arguments.user != nullptr) side_->bind_scalar(*arguments.user, &launch);
  launch.lends = arguments.count * launch.element.value >= kLentOnDeviceFrom && driver_.binder().may_lend(arguments);
  if (launch.lends && side_->spans_processes()) {
    launch.input_is_registered = is_registered(launch.input);
    launch.output_is_registered = is_registered(launch.output);
  }
  return {};
}

/// No thread waits for a kernel that runs alone on a CUDA stream, so such a kernel has the call's timeout itself. A
/// call through host memory always has a thread that waits, whatever stream it is on.
double DeviceCalls::kernel_timeout(bool runs_alone) const {
  const double timeout = driver_.running().timeout;
  return runs_alone || timeout <= 0 ? timeout : timeout + kAfterTheHost;
}

// Ranks that read or write nothing in the call have no buffer.
Status DeviceCalls::bind_staged(const CallArguments& arguments) {
  const Call& call = driver_.running().call;
  LaunchBinder& binder = driver_.binder();
  binder.bind(arguments, call, &binder.plans());
  StagedBuffers buffers;
  buffers.input_blocks = static_cast<std::size_t>(send_blocks(arguments.collective, peers_.ranks()));
  buffers.output_blocks = static_cast<std::size_t>(recv_blocks(arguments.collective, peers_.ranks()));
  if (!reads_send(arguments, peers_.rank().value)) binder.launch().input = nullptr;
  if (!writes_recv(arguments, peers_.rank().value)) binder.launch().output = nullptr;
  if (arguments.user != nullptr && arguments.user->function != nullptr) {
    binder.bind_reduction(arguments, call);
  } else if (arguments.user != nullptr) {
    binder.launch().op = RedOp::kSum;
    buffers.prepare = [type = call.type, user = arguments.user](std::byte* data, std::size_t elements) {
      scale(type, data, data, elements, user->scalar_now());
    };
  }
  if (arguments.two_levels) side_->bind_levels(arguments, &buffers);
  side_->staged()->bind(std::move(buffers));
  return {};
}

void DeviceCalls::withdraw(const void* memory) {
  if (exist() && side_->executor() != nullptr) side_->executor()->withdraw(memory);
}

bool DeviceCalls::is_registered(const void* memory) const {
  return memory != nullptr &&
         (driver_.binder().registered().contains(memory, 1) || DeviceAllocations::get().holds(memory));
}

// Work on other streams than the caller's is not captured. It would run once, now, before the captured work that it
// should follow.
Status DeviceCalls::check_blocking(const CallArguments& arguments) const {
  return arguments.on_device || arguments.staged ? check_default_stream(name_of(arguments.collective)) : Status{};
}

Status DeviceCalls::check_blocking(std::span<const Transfer> transfers) const {
  return exist() && side_->any_on_device(transfers) ? check_default_stream("a send or receive") : Status{};
}

Status DeviceCalls::check_default_stream(const char* what) const {
  DeviceDriver& driver = side_->driver();
  std::uint64_t capture = 0;
  const Status status = driver.capture_of(driver.default_stream(), &capture);
  if (status.code() != Code::kInvalidUsage) return status;
  return fail(Code::kInvalidUsage,
              "{}: a call on device buffers that is on no CUDA stream follows the default stream: {}", what,
              status.text());
}

}  // namespace tutti

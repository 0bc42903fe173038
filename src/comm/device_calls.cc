// Calls on the caller's own CUDA streams: put there when they are made, watched by the progress thread.
#include <chrono>
#include <utility>

#include "comm/call/user_operation.h"
#include "comm/communicator.h"
#include "comm/device/cuda_stream.h"
#include "core/wait_until.h"
#include "kernels/kernels.h"

namespace tutti {

namespace {
/// Whether anything of the call comes to its stream.
bool moves_data(const CallArguments& a) {
  return a.count != 0 || a.blocks != nullptr || a.collective == Collective::kBarrier;
}
/// Bytes of a block from which on kernels leave messages in the caller's buffers: the kernel then ends when its readers
/// have read, one trip later. Not measured on a GPU yet.
constexpr std::size_t kLentOnDeviceFrom = std::size_t{64} << 10;

Status refuse_host_buffers() { return fail(Code::kInvalidUsage, "host buffers cannot go on a CUDA stream"); }
}  // namespace

Status Communicator::launch_on(const CallArguments& arguments, const CudaStream& stream,
                               std::shared_ptr<DeviceEvent>* ended, Call* launched) {
  DeviceExecutor* const executor = device_ == nullptr ? nullptr : device_->executor();
  if (executor == nullptr)
    return fail(Code::kUnsupported, "{}: the stream is a CUDA stream, and this communicator offers no device buffers{}",
                name_of(arguments.collective), device_ == nullptr ? "" : ": " + device_->why_not().text());
  CallArguments call = arguments;
  if (!DeviceSide::has_memory(call, rank_.value)) call.on_device = true;  // nothing says that it would be elsewhere
  std::uint64_t capture = 0;
  TUTTI_TRY(executor->driver().capture_of(stream.handle(), &capture));
  if (!call.on_device)
    return fail(Code::kInvalidUsage, "{}: the buffers of rank {} are host memory, which cannot {}",
                name_of(call.collective), rank_.value,
                capture == 0 ? "go on a CUDA stream" : "be used by a CUDA graph: it runs without the host");
  if (capture != 0 && device_->spans_processes())
    return fail(Code::kInvalidUsage,
                "{}: a CUDA graph cannot have calls of ranks in several processes: no host would see one of them die",
                name_of(call.collective));
  StreamKey place;
  TUTTI_TRY(stream.place_on(executor->device(), &place));
  place.capture = capture;
  TUTTI_TRY(wait_until_quiet());
  if (moves_data(call)) TUTTI_TRY(device_->deadlock_check().enter(rank_, {&place, 1}, turns_.number() + 1));
  const std::uint64_t ticket = turns_.take();
  Status status;
  try {
    bool empty = false;
    status = begin(call, &empty, true);
    if (status.ok() && !empty) status = executor->launch_on(launch(), stream.handle(), running_.timeout, ended);
  } catch (...) {
    status = failed_inside();
  }
  *launched = running_.call;
  return finish(std::move(status), ticket);
}

Status Communicator::device_transport(std::string* text) const {
  if (device_ == nullptr) return fail(Code::kUnsupported, "this process has no CUDA device");
  const char* const within = device_->has_two_levels() ? "cuda within hosts, " : "";
  *text = device_->executor() != nullptr ? "cuda" : fmt::format("{}staged over {}", within, transport());
  return {};
}

bool Communicator::launches(const CallArguments& arguments) const {
  return device_ != nullptr && device_->executor() != nullptr && !arguments.staged;
}

// What every rank decides alone: the messages are those of a call on host memory.
Status Communicator::stage_on(const CudaStream& stream, void* queue, const CallArguments& arguments,
                              std::shared_ptr<StreamGate>* gate) {
  if (device_ == nullptr || launches(arguments)) return {};
  if (!arguments.staged && DeviceSide::has_memory(arguments, rank_.value)) return refuse_host_buffers();
  StreamKey places[2];
  TUTTI_TRY(open_stage(stream, &places[0]));
  places[1] = places[0];
  places[1].handle = queue;
  places[1].thread = 0;
  if (moves_data(arguments)) TUTTI_TRY(device_->deadlock_check().enter(rank_, places, turns_.next_number()));
  return device_->staged()->hold(places[0].device, stream.handle(), gate);
}

Status Communicator::stage_on(const CudaStream& stream, std::span<const Transfer> transfers,
                              std::shared_ptr<StreamGate>* gate) {
  if (device_ == nullptr) return {};
  if (!device_->any_on_device(transfers)) return refuse_host_buffers();
  StreamKey place;
  TUTTI_TRY(open_stage(stream, &place));
  return device_->staged()->hold(place.device, stream.handle(), gate);
}

/// The key of a stream that a call through host memory is put on.
Status Communicator::open_stage(const CudaStream& stream, StreamKey* place) {
  std::uint64_t capture = 0;
  TUTTI_TRY(device_->driver().capture_of(stream.handle(), &capture));
  if (capture != 0)
    return fail(Code::kInvalidUsage,
                "what goes through host memory cannot be part of a CUDA graph, which runs without "
                "the host{}{}",
                device_->why_not().ok() ? "" : ": ", device_->why_not().text());
  TUTTI_TRY(device_->open_staging(-1));
  TUTTI_TRY(stream.place_on(device_->device_of_calls(), place));
  if (place->device < 0) place->device = device_->staged()->device();
  return {};
}

bool Communicator::has_unknown_memory(const CallArguments& a) const {
  return a.collective == Collective::kAllToAllV && device_ != nullptr && device_->executor() != nullptr &&
         !a.on_device && !a.staged && !DeviceSide::has_memory(a, rank_.value);
}

// A rank that moves no data cannot tell device from host. It writes "unknown" on its board, then takes the first
// definite answer that stands on any other board. If all are unknown, nothing is moved, and the call runs on the host.
Status Communicator::ask_memory_kind(const CallArguments& arguments) {
  if (running_.call.sequence == turns_.number() + 1 && running_.call.memory_unknown) return {};  // it stands there
  TUTTI_TRY(may_begin());
  describe_call(arguments, turns_.number() + 1, &running_.call);
  running_.call.memory_unknown = true;
  board_.begin(running_.call);
  run_on(RunningCall::Way::kHost);
  running_.timeout = timeout();
  judge_.begin();
  return {};
}

/// Whether the boards answer; else `missing` has not made the call.
bool Communicator::find_memory_kind(bool* on_device, Rank* missing) const {
  *on_device = false;
  *missing = kNoRank;
  const BoardReader board = peers_.boards();
  for (Rank peer{0}; peer.value < ranks_; ++peer) {
    if (peer == rank_) continue;
    const PostedCall posted = board(peer)->find(running_.call.sequence);
    if (posted.known && !posted.call.memory_unknown) {
      *on_device = posted.call.on_device;
      return true;
    }
    if (!posted.known && *missing == kNoRank) *missing = peer;
  }
  return *missing == kNoRank;
}

Status Communicator::check_wait_for_memory_kind(Rank missing) {
  board_.wait_for(missing);
  return judge_.check(missing, 0);
}

Status Communicator::resolve_memory_kind(const CallArguments& arguments, bool* on_device) {
  TUTTI_TRY(ask_memory_kind(arguments));
  Rank missing;
  if (find_memory_kind(on_device, &missing)) return {};
  TUTTI_TRY(check_wait_for_memory_kind(missing));
  return fail(Code::kInProgress, "rank {} has not made call {}", missing.value, running_.call.sequence);
}

Status Communicator::wait_for_memory_kind(CallArguments* arguments) {
  TUTTI_TRY(ask_memory_kind(*arguments));
  Rank missing;
  const auto is_known = [&] { return find_memory_kind(&arguments->on_device, &missing); };
  const auto is_worth_it = [&](bool) { return check_wait_for_memory_kind(missing); };
  const Status waited = wait_until(is_known, is_worth_it, WaitPace{std::chrono::microseconds{200}});
  board_.wait_for(kNoRank);
  return waited;
}

// A kernel needs no more than the scalar. On the way through host memory the roles that read or write nothing have no
// buffer.
Status Communicator::bind_staged(const CallArguments& arguments) {
  Launch* const launch = &binder_.launch();
  if (arguments.on_device) {
    if (arguments.user != nullptr) device_->bind_scalar(*arguments.user, launch);
    launch->lends = arguments.count * launch->element.value >= kLentOnDeviceFrom && binder_.may_lend(arguments);
    if (launch->lends && device_->spans_processes()) {
      launch->input_is_registered = is_registered_on_device(launch->input);
      launch->output_is_registered = is_registered_on_device(launch->output);
    }
    return {};
  }
  StagedBuffers buffers;
  buffers.input_blocks = static_cast<std::size_t>(send_blocks(arguments.collective, ranks_));
  buffers.output_blocks = static_cast<std::size_t>(recv_blocks(arguments.collective, ranks_));
  if (!reads_send(arguments, rank_.value)) launch->input = nullptr;
  if (!writes_recv(arguments, rank_.value)) launch->output = nullptr;
  if (arguments.user != nullptr && arguments.user->function != nullptr) {
    binder_.bind_reduction(arguments, running_.call);
  } else if (arguments.user != nullptr) {
    launch->op = RedOp::kSum;
    buffers.prepare = [type = running_.call.type, user = arguments.user](std::byte* data, std::size_t elements) {
      scale(type, data, data, elements, user->scalar_now());
    };
  }
  if (arguments.two_levels) device_->bind_levels(arguments, &buffers);
  device_->staged()->bind(std::move(buffers));
  return {};
}

bool Communicator::deregister(std::uint64_t handle) {
  const void* begin = nullptr;
  if (!registered().remove(handle, &begin)) return false;
  if (device_ != nullptr && device_->executor() != nullptr) device_->executor()->withdraw(begin);
  return true;
}

bool Communicator::is_registered_on_device(const void* memory) const {
  return memory != nullptr && (binder_.registered().contains(memory, 1) || DeviceAllocations::get().holds(memory));
}

// What other streams than the caller's run is not captured: it would run once, now, before what it follows.
Status Communicator::check_blocking(const CallArguments& arguments) const {
  return arguments.on_device || arguments.staged ? check_default_stream(name_of(arguments.collective)) : Status{};
}

Status Communicator::check_blocking(std::span<const Transfer> transfers) const {
  return device_ != nullptr && device_->any_on_device(transfers) ? check_default_stream("a send or receive") : Status{};
}

Status Communicator::check_default_stream(const char* what) const {
  DeviceDriver& driver = device_->driver();
  std::uint64_t capture = 0;
  const Status status = driver.capture_of(driver.default_stream(), &capture);
  if (status.code() != Code::kInvalidUsage) return status;
  return fail(Code::kInvalidUsage,
              "{}: a call on device buffers that is on no CUDA stream follows the default stream: {}", what,
              status.text());
}

}  // namespace tutti

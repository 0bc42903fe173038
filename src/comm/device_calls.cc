// Calls on the caller's own CUDA streams: put there when they are made, watched by the progress thread.
#include <chrono>
#include <thread>
#include <utility>

#include "comm/communicator.h"
#include "comm/operation.h"
#include "comm/stream.h"
#include "comm/user_operation.h"

namespace tutti {

Status Communicator::launch_on(const CallArguments& arguments, Stream& stream, std::unique_ptr<Operation>* watched,
                               const std::shared_ptr<Communicator>& self) {
  DeviceExecutor* const executor = device_ == nullptr ? nullptr : device_->executor();
  if (executor == nullptr)
    return fail(Code::kUnsupported, "{}: the stream is a CUDA stream, and this communicator offers no device buffers{}",
                name_of(arguments.collective), device_ == nullptr ? "" : ": " + device_->why_not().text());
  CallArguments call = arguments;
  if (call.collective == Collective::kBarrier) call.on_device = true;
  const std::uint64_t ticket = take_ticket();
  wait_for_turn(ticket);
  bool empty = false;
  Status status = begin(call, &empty);
  if (status.ok() && !empty && !call.on_device)
    status = fail(Code::kInvalidUsage, "{}: host buffers cannot go on a CUDA stream", name_of(call.collective));
  std::shared_ptr<DeviceEvent> ended;
  if (status.ok() && !empty) status = executor->launch_on(launch_, stream.cuda(), operation_timeout_, &ended);
  const Call launched = call_;
  status = finish(std::move(status), ticket);
  if (status.ok() && ended != nullptr) *watched = std::make_unique<Operation>(self, std::move(ended), launched);
  return status;
}

Status Communicator::device_transport(std::string* text) const {
  if (device_ == nullptr) return fail(Code::kUnsupported, "this process has no CUDA device");
  *text = device_->executor() != nullptr ? "cuda" : fmt::format("staged over {}", transport());
  return {};
}

// What every rank decides alone: the messages are those of a call on host memory.
Status Communicator::stage_on(Stream& stream, QueuedCall* call, std::shared_ptr<StreamOrder>* order) {
  if (device_ == nullptr) return {};
  if (call->collective() && device_->executor() != nullptr && !call->arguments().staged) return {};
  const bool staged = call->collective() ? call->arguments().staged : device_->any_on_device(call->transfers());
  const bool without_memory = call->collective() && !DeviceSide::has_memory(call->arguments(), rank_.value);
  if (!staged && !without_memory) return fail(Code::kInvalidUsage, "host buffers cannot go on a CUDA stream");
  TUTTI_TRY(device_->open_staging(-1));
  if (!staged) call->stage();
  return device_->staged()->hold(stream.cuda(), order);
}

// The roles that read or write nothing have no buffer then.
Status Communicator::bind_staged(const CallArguments& arguments, Launch* launch) {
  StagedBuffers buffers;
  buffers.input_blocks = static_cast<std::size_t>(send_blocks(arguments.collective, ranks_));
  buffers.output_blocks = static_cast<std::size_t>(recv_blocks(arguments.collective, ranks_));
  if (!reads_send(arguments, rank_.value)) launch->input = nullptr;
  if (!writes_recv(arguments, rank_.value)) launch->output = nullptr;
  if (arguments.user != nullptr && arguments.user->function != nullptr) {
    bind_reduction(arguments, launch);
  } else if (arguments.user != nullptr) {
    launch->op = RedOp::kSum;
    buffers.prepare = [type = call_.type, user = arguments.user](std::byte* data, std::size_t elements) {
      scale(type, data, data, elements, user->scalar_now());
    };
  }
  device_->staged()->bind(std::move(buffers));
  return {};
}

// A kernel that gave up knows one rank that it waited for; which of all has not come is on the boards.
Status Communicator::end_of_kernel(Status status, const Call& call) {
  if (status.ok() || status.code() == Code::kInProgress) return status;
  const Rank missing = device_->executor()->timed_out();
  if (status.code() != Code::kTimeout || missing == kNoRank) return fail_for_good(std::move(status), kNoRank);
  const Culprit culprit = find_absent(call, rank_, missing, ranks_, boards());
  return fail_for_good(fail(Code::kTimeout, "rank {} waited until its timeout in {}: {}{}", rank_.value, describe(call),
                            culprit.what, others_missing(call)),
                       culprit.rank);
}

Status Communicator::poll(const DeviceEvent& ended, const Call& call) {
  Status status = end_of_kernel(device_->executor()->poll(ended, describe(call)), call);
  if (status.code() != Code::kInProgress) return status;
  // A peer's cause stops the kernel, which may wait for what will not come; it ends by itself then.
  (void)adopt_cause();
  return status;
}

// Those on CUDA streams end by their own deadlines.
Status Communicator::wait_for_kernels() {
  if (device_ == nullptr || device_->executor() == nullptr) return {};
  for (;;) {
    const Status status = end_of_kernel(device_->executor()->poll_last(), call_);
    if (status.code() != Code::kInProgress) return status;
    (void)adopt_cause();
    std::this_thread::sleep_for(std::chrono::microseconds{100});
  }
}

}  // namespace tutti

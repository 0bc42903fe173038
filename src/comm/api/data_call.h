// The frame of the C functions that move data: such a call runs now, or it is checked now and runs later.
#pragma once

#include <concepts>
#include <memory>

#include "comm/api/handle.h"
#include "comm/queue/call_group.h"

namespace tutti {

/// Such a function makes one of these of its arguments: a collective, or a transfer.
template <class C>
concept DataCall = requires(C call, Communicator& communicator) {
  /// Completes, checks and runs it on the calling thread.
  { call.run(communicator) } -> std::same_as<Status>;
  /// Completes and checks it.
  { call.check(communicator) } -> std::same_as<Status>;
  /// Says whether a checked call can go elsewhere than on a CUDA stream.
  { call.check_blocking(communicator) } -> std::same_as<Status>;
  /// Makes of it a call that can run later and holds all that it needs but the buffers.
  { call.queued(communicator) } -> std::same_as<QueuedCall>;
};

/// Checks a call in a group or on a stream. Another thread runs it, or the end of the group does.
template <DataCall C>
Status submit(C& call, tuttiComm_t comm, tuttiStream_t stream) {
  if (stream != nullptr) TUTTI_TRY(check_handle(stream));
  const std::shared_ptr<Communicator>& communicator = comm->comm;
  if (communicator->failures().failed()) return communicator->failures().status();
  TUTTI_TRY(call.check(*communicator));
  if (stream == nullptr || !stream->stream->is_cuda()) TUTTI_TRY(call.check_blocking(*communicator));
  return CallGroup::run_later(communicator, call.queued(*communicator), stream != nullptr ? stream->stream : nullptr);
}

/// The whole body of the C function, to be run by guard() or guard_quick(). A call that runs now gets no NoCancel here.
template <DataCall C>
Status run_or_submit(C call, tuttiComm_t comm, tuttiStream_t stream) {
  CallGuard call_guard;
  Status status = call_guard.enter(comm);
  if (status.ok() && stream == nullptr && CallGroup::depth() == 0) [[likely]]
    return comm->comm->failures().attempt([&] { return call.run(*comm->comm); });
  const NoCancel no_cancel;
  if (status.ok()) status = comm->comm->failures().attempt([&] { return submit(call, comm, stream); });
  if (!status.ok() && CallGroup::depth() != 0) CallGroup::current().refuse(status);
  return status;
}

}  // namespace tutti

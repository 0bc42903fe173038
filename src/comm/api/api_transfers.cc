// The C functions for sends and receives.
#include "comm/api/handle.h"
#include "comm/queue/call_group.h"

using tutti::Status;
using tutti::Transfer;

namespace {

/// In a group or on a stream: checked here, run by another thread or at the end of the group.
Status submit(const Transfer& transfer, tuttiComm_t comm, tuttiStream_t stream) {
  if (stream != nullptr) TUTTI_TRY(tutti::check_handle(stream));
  const std::shared_ptr<tutti::Communicator>& communicator = comm->comm;
  if (communicator->failures().failed()) return communicator->failures().status();
  TUTTI_TRY(communicator->check(transfer));
  if (stream == nullptr || !stream->stream->is_cuda())
    TUTTI_TRY(communicator->device_calls().check_blocking({&transfer, 1}));
  tutti::QueuedCall queued(std::vector<Transfer>{transfer});
  return tutti::CallGroup::run_later(communicator, std::move(queued), stream != nullptr ? stream->stream : nullptr);
}

tuttiResult_t exchange(Transfer transfer, tuttiDataType_t datatype, tuttiComm_t comm, tuttiStream_t stream) {
  return tutti::guard(comm, [&]() -> Status {
    tutti::CallGuard call_guard;
    Status status = call_guard.enter(comm);
    if (status.ok() && (datatype < 0 || static_cast<int>(datatype) >= tutti::kDataTypes))
      status = tutti::fail(tutti::Code::kInvalidArgument, "datatype {} is not a tuttiDataType_t",
                           static_cast<int>(datatype));
    transfer.type = static_cast<tutti::DataType>(datatype);
    const bool runs_now = stream == nullptr && tutti::CallGroup::depth() == 0;
    if (status.ok())
      status = comm->comm->failures().attempt([&] {
        return runs_now ? comm->comm->run({&transfer, 1}) : submit(transfer, comm, stream);
      });
    if (!status.ok() && tutti::CallGroup::depth() != 0) tutti::CallGroup::current().refuse(status);
    return status;
  });
}

Transfer send_of(const void* buffer, size_t count, int peer, int tag) {
  Transfer transfer;
  transfer.kind = Transfer::Kind::kSend;
  transfer.peer = tutti::Rank{peer};
  transfer.tag = tag;
  // A send's data is only read; the cast lets one struct serve both directions.
  transfer.data = const_cast<std::byte*>(static_cast<const std::byte*>(buffer));
  transfer.count = tutti::Elems{count};
  return transfer;
}

Transfer receive_of(void* buffer, size_t count, int peer, int tag, int* source) {
  Transfer transfer;
  transfer.kind = Transfer::Kind::kReceive;
  static_assert(TUTTI_ANY_SOURCE == tutti::kNoRank.value);
  transfer.peer = tutti::Rank{peer};
  transfer.tag = tag;
  transfer.data = static_cast<std::byte*>(buffer);
  transfer.count = tutti::Elems{count};
  transfer.source = source;
  return transfer;
}

}  // namespace

extern "C" {

tuttiResult_t tuttiSend(const void* sendbuff, size_t count, tuttiDataType_t datatype, int peer, tuttiComm_t comm,
                        tuttiStream_t stream) {
  return exchange(send_of(sendbuff, count, peer, 0), datatype, comm, stream);
}

tuttiResult_t tuttiRecv(void* recvbuff, size_t count, tuttiDataType_t datatype, int peer, tuttiComm_t comm,
                        tuttiStream_t stream) {
  return exchange(receive_of(recvbuff, count, peer, 0, nullptr), datatype, comm, stream);
}

tuttiResult_t tuttiSendTag(const void* sendbuff, size_t count, tuttiDataType_t datatype, int peer, int tag,
                           tuttiComm_t comm, tuttiStream_t stream) {
  return exchange(send_of(sendbuff, count, peer, tag), datatype, comm, stream);
}

tuttiResult_t tuttiRecvTag(void* recvbuff, size_t count, tuttiDataType_t datatype, int peerOrAny, int tag, int* source,
                           tuttiComm_t comm, tuttiStream_t stream) {
  return exchange(receive_of(recvbuff, count, peerOrAny, tag, source), datatype, comm, stream);
}

}  // extern "C"

// The C functions that move data: three lines each.
#include "comm/call_group.h"
#include "comm/handle.h"

using tutti::CallArguments;
using tutti::Code;
using tutti::Collective;
using tutti::Status;

namespace {

/// In a group or on a stream: checked here, run by another thread or at the end of the group.
Status submit(const CallArguments& arguments, tuttiComm_t comm, tuttiStream_t stream) {
  if (stream != nullptr) TUTTI_TRY(tutti::check_handle(stream));
  const std::shared_ptr<tutti::Communicator>& communicator = comm->comm;
  if (communicator->failed()) return communicator->failure();
  TUTTI_TRY(tutti::check_arguments(arguments, communicator->rank().value, communicator->ranks()));
  if (tutti::CallGroup::depth() != 0) {
    tutti::CallGroup::current().add(communicator, arguments, stream != nullptr ? stream->stream : nullptr);
    return {};
  }
  stream->stream->enqueue(std::make_unique<tutti::Operation>(communicator, arguments));
  return {};
}

tuttiResult_t call(const CallArguments& arguments, tuttiComm_t comm, tuttiStream_t stream) {
  return tutti::guard(comm, [&]() -> Status {
    tutti::InCall in_call;
    Status status = in_call.enter(comm);
    if (status.ok() && stream == nullptr && tutti::CallGroup::depth() == 0) [[likely]]
      return comm->comm->run(arguments);
    if (status.ok()) status = submit(arguments, comm, stream);
    if (!status.ok() && tutti::CallGroup::depth() != 0) tutti::CallGroup::current().refuse(status);
    return status;
  });
}

tuttiResult_t later(const char* function, tuttiComm_t comm) {
  return tutti::guard(comm, [&] {
    Status status = tutti::fail(Code::kUnsupported, "{} comes with a later version", function);
    if (tutti::CallGroup::depth() != 0) tutti::CallGroup::current().refuse(status);
    return status;
  });
}

}  // namespace

extern "C" {

tuttiResult_t tuttiAllReduce(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t datatype,
                             tuttiRedOp_t op, tuttiComm_t comm, tuttiStream_t stream) {
  return call({Collective::kAllReduce, sendbuff, recvbuff, count, datatype, op, -1}, comm, stream);
}

tuttiResult_t tuttiReduce(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t datatype, tuttiRedOp_t op,
                          int root, tuttiComm_t comm, tuttiStream_t stream) {
  return call({Collective::kReduce, sendbuff, recvbuff, count, datatype, op, root}, comm, stream);
}

tuttiResult_t tuttiReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, tuttiDataType_t datatype,
                                 tuttiRedOp_t op, tuttiComm_t comm, tuttiStream_t stream) {
  return call({Collective::kReduceScatter, sendbuff, recvbuff, recvcount, datatype, op, -1}, comm, stream);
}

tuttiResult_t tuttiBroadcast(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t datatype, int root,
                             tuttiComm_t comm, tuttiStream_t stream) {
  return call({Collective::kBroadcast, sendbuff, recvbuff, count, datatype, 0, root}, comm, stream);
}

tuttiResult_t tuttiAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, tuttiDataType_t datatype,
                             tuttiComm_t comm, tuttiStream_t stream) {
  return call({Collective::kAllGather, sendbuff, recvbuff, sendcount, datatype, 0, -1}, comm, stream);
}

tuttiResult_t tuttiBarrier(tuttiComm_t comm, tuttiStream_t stream) {
  return call({Collective::kBarrier, nullptr, nullptr, 0, 0, 0, -1}, comm, stream);
}

tuttiResult_t tuttiAllGatherV(const void*, void*, size_t, const size_t*, const size_t*, tuttiDataType_t,
                              tuttiComm_t comm, tuttiStream_t) {
  return later("tuttiAllGatherV", comm);
}

tuttiResult_t tuttiGather(const void*, void*, size_t, tuttiDataType_t, int, tuttiComm_t comm, tuttiStream_t) {
  return later("tuttiGather", comm);
}

tuttiResult_t tuttiScatter(const void*, void*, size_t, tuttiDataType_t, int, tuttiComm_t comm, tuttiStream_t) {
  return later("tuttiScatter", comm);
}

tuttiResult_t tuttiAllToAll(const void*, void*, size_t, tuttiDataType_t, tuttiComm_t comm, tuttiStream_t) {
  return later("tuttiAllToAll", comm);
}

tuttiResult_t tuttiAllToAllV(const void*, const size_t*, const size_t*, void*, const size_t*, const size_t*,
                             tuttiDataType_t, tuttiComm_t comm, tuttiStream_t) {
  return later("tuttiAllToAllV", comm);
}

tuttiResult_t tuttiSend(const void*, size_t, tuttiDataType_t, int, tuttiComm_t comm, tuttiStream_t) {
  return later("tuttiSend", comm);
}

tuttiResult_t tuttiRecv(void*, size_t, tuttiDataType_t, int, tuttiComm_t comm, tuttiStream_t) {
  return later("tuttiRecv", comm);
}

tuttiResult_t tuttiSendTag(const void*, size_t, tuttiDataType_t, int, int, tuttiComm_t comm, tuttiStream_t) {
  return later("tuttiSendTag", comm);
}

tuttiResult_t tuttiRecvTag(void*, size_t, tuttiDataType_t, int, int, int*, tuttiComm_t comm, tuttiStream_t) {
  return later("tuttiRecvTag", comm);
}

tuttiResult_t tuttiRedOpCreatePreMulSum(tuttiRedOp_t*, void*, tuttiDataType_t, tuttiScalarResidence_t,
                                        tuttiComm_t comm) {
  return later("tuttiRedOpCreatePreMulSum", comm);
}

tuttiResult_t tuttiRedOpCreateCustom(tuttiRedOp_t*, void (*)(const void*, void*, size_t, tuttiDataType_t, void*), int,
                                     void*, tuttiComm_t comm) {
  return later("tuttiRedOpCreateCustom", comm);
}

tuttiResult_t tuttiRedOpDestroy(tuttiRedOp_t, tuttiComm_t comm) { return later("tuttiRedOpDestroy", comm); }

tuttiResult_t tuttiGroupStart(void) {
  return tutti::guard(nullptr, [] {
    tutti::CallGroup::start();
    return Status{};
  });
}

tuttiResult_t tuttiGroupEnd(void) {
  return tutti::guard(nullptr, [] { return tutti::CallGroup::end(); });
}

}  // extern "C"

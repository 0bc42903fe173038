// The C functions of the collectives: each puts its arguments together and passes them on.
#include <utility>

#include "comm/api/data_call.h"

using tutti::CallArguments;
using tutti::Collective;
using tutti::Communicator;
using tutti::Status;

namespace {

struct CollectiveCall {
  CallArguments& arguments;

  Status run(Communicator& communicator) { return communicator.run(&arguments); }
  Status check(Communicator& communicator) { return communicator.check(&arguments); }
  Status check_blocking(Communicator& communicator) { return communicator.device_calls().check_blocking(arguments); }
  tutti::QueuedCall queued(Communicator& communicator) {
    return tutti::QueuedCall(tutti::OwnedArguments(arguments, communicator.operations().find(arguments.op)));
  }
};

tuttiResult_t call(CallArguments&& arguments, tuttiComm_t comm, tuttiStream_t stream) {
  return tutti::guard_quick(comm, [&] { return tutti::run_or_submit(CollectiveCall{arguments}, comm, stream); });
}

/// float32 travels as itself whatever the communicator's wire type is. A value that is no type stays invalid.
int wire_of(tuttiDataType_t type) {
  if (type == tuttiFloat32) return CallArguments::kNoWire;
  return type < 0 ? static_cast<int>(tuttiDataTypeMax) : static_cast<int>(type);
}

/// A call with one block per rank. The tables get their sizes here, where the communicator is known.
tuttiResult_t call_blocks(CallArguments arguments, tutti::BlockArguments blocks, tuttiComm_t comm,
                          tuttiStream_t stream) {
  const tuttiResult_t sized = tutti::guard(comm, [&]() -> Status {
    std::shared_ptr<tutti::Communicator> held;
    if (!tutti::hold(comm, &held).ok()) return {};  // the call itself reports that
    const auto ranks = static_cast<std::size_t>(held->ranks());
    if (blocks.send.size == 0) blocks.send.size = ranks;
    blocks.recv.size = ranks;
    return {};
  });
  if (sized != tuttiSuccess) return sized;
  arguments.blocks = &blocks;
  return call(std::move(arguments), comm, stream);  // NOLINT(performance-move-const-arg): completed in place
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

tuttiResult_t tuttiAllReduceWire(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t datatype,
                                 tuttiRedOp_t op, tuttiDataType_t wireType, tuttiComm_t comm, tuttiStream_t stream) {
  return call({Collective::kAllReduce, sendbuff, recvbuff, count, datatype, op, -1, wire_of(wireType)}, comm, stream);
}

tuttiResult_t tuttiReduceWire(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t datatype,
                              tuttiRedOp_t op, int root, tuttiDataType_t wireType, tuttiComm_t comm,
                              tuttiStream_t stream) {
  return call({Collective::kReduce, sendbuff, recvbuff, count, datatype, op, root, wire_of(wireType)}, comm, stream);
}

tuttiResult_t tuttiReduceScatterWire(const void* sendbuff, void* recvbuff, size_t recvcount, tuttiDataType_t datatype,
                                     tuttiRedOp_t op, tuttiDataType_t wireType, tuttiComm_t comm,
                                     tuttiStream_t stream) {
  return call({Collective::kReduceScatter, sendbuff, recvbuff, recvcount, datatype, op, -1, wire_of(wireType)}, comm,
              stream);
}

tuttiResult_t tuttiGather(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t datatype, int root,
                          tuttiComm_t comm, tuttiStream_t stream) {
  return call({Collective::kGather, sendbuff, recvbuff, count, datatype, 0, root}, comm, stream);
}

tuttiResult_t tuttiScatter(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t datatype, int root,
                           tuttiComm_t comm, tuttiStream_t stream) {
  return call({Collective::kScatter, sendbuff, recvbuff, count, datatype, 0, root}, comm, stream);
}

tuttiResult_t tuttiAllToAll(const void* sendbuff, void* recvbuff, size_t count, tuttiDataType_t datatype,
                            tuttiComm_t comm, tuttiStream_t stream) {
  return call({Collective::kAllToAll, sendbuff, recvbuff, count, datatype, 0, -1}, comm, stream);
}

tuttiResult_t tuttiAllGatherV(const void* sendbuff, void* recvbuff, size_t sendcount, const size_t* recvcounts,
                              const size_t* displs, tuttiDataType_t datatype, tuttiComm_t comm, tuttiStream_t stream) {
  const size_t start = 0;
  return call_blocks({Collective::kAllGatherV, sendbuff, recvbuff, sendcount, datatype, 0, -1},
                     {{&sendcount, &start, 1}, {recvcounts, displs, 0}}, comm, stream);
}

tuttiResult_t tuttiAllToAllV(const void* sendbuff, const size_t* sendcounts, const size_t* sdispls, void* recvbuff,
                             const size_t* recvcounts, const size_t* rdispls, tuttiDataType_t datatype,
                             tuttiComm_t comm, tuttiStream_t stream) {
  return call_blocks({Collective::kAllToAllV, sendbuff, recvbuff, 0, datatype, 0, -1},
                     {{sendcounts, sdispls, 0}, {recvcounts, rdispls, 0}}, comm, stream);
}

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

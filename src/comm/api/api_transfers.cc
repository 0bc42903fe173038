// The C functions for sends and receives.
#include <vector>

#include "comm/api/data_call.h"

using tutti::Communicator;
using tutti::Status;
using tutti::Transfer;

namespace {

struct TransferCall {
  Transfer transfer;
  tuttiDataType_t datatype;

  Status run(Communicator& communicator) {
    TUTTI_TRY(set_type());
    return communicator.run({&transfer, 1});
  }
  Status check(Communicator& communicator) {
    TUTTI_TRY(set_type());
    return communicator.check(transfer);
  }
  Status check_blocking(Communicator& communicator) {
    return communicator.device_calls().check_blocking({&transfer, 1});
  }
  tutti::QueuedCall queued(Communicator&) { return tutti::QueuedCall(std::vector<Transfer>{transfer}); }

 private:
  Status set_type() {
    if (datatype < 0 || static_cast<int>(datatype) >= tutti::kDataTypes)
      return tutti::fail(tutti::Code::kInvalidArgument, "datatype {} is not a tuttiDataType_t",
                         static_cast<int>(datatype));
    transfer.type = static_cast<tutti::DataType>(datatype);
    return {};
  }
};

tuttiResult_t exchange(const Transfer& transfer, tuttiDataType_t datatype, tuttiComm_t comm, tuttiStream_t stream) {
  return tutti::guard(comm, [&] { return tutti::run_or_submit(TransferCall{transfer, datatype}, comm, stream); });
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

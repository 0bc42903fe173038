#include "nccl/side.h"

namespace tutti::bench {

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) give_up(std::string(what) + ": " + cudaGetErrorString(error));
}
void check(ncclResult_t result, const char* what) {
  if (result != ncclSuccess) give_up(std::string(what) + ": " + ncclGetErrorString(result));
}
void check(tuttiResult_t result, tuttiComm_t comm, const char* what) {
  if (result != tuttiSuccess) give_up(std::string(what) + ": " + tuttiGetLastError(comm));
}

TuttiSide::TuttiSide(const Race& race, tuttiComm_t comm, cudaStream_t stream)
    : race_(race), comm_(comm), cuda_(stream) {
  check(tuttiStreamFromCuda(&stream_, stream), nullptr, "tuttiStreamFromCuda");
}
TuttiSide::~TuttiSide() { tuttiStreamDestroy(stream_); }

tuttiResult_t TuttiSide::call(const Operands& o) {
  const tuttiStream_t stream = race_.blocking ? nullptr : stream_;
  if (race_.collective == "all_gather") return tuttiAllGather(o.send, o.recv, o.count, tuttiFloat32, comm_, stream);
  if (race_.collective == "reduce_scatter")
    return tuttiReduceScatter(o.send, o.recv, o.count, tuttiFloat32, tuttiSum, comm_, stream);
  if (race_.collective == "broadcast") return tuttiBroadcast(o.send, o.recv, o.count, tuttiFloat32, 0, comm_, stream);
  return tuttiAllReduce(o.send, o.recv, o.count, tuttiFloat32, tuttiSum, comm_, stream);
}

std::string TuttiSide::put(const Operands& operands) {
  const tuttiResult_t result = call(operands);
  if (result == tuttiUnsupported || result == tuttiInvalidUsage) return tuttiGetLastError(comm_);
  check(result, comm_, "Tutti");
  return {};
}

void TuttiSide::settle() {
  check(tuttiStreamSynchronize(stream_), comm_, "Tutti's stream");
  check(cudaStreamSynchronize(cuda_), "the stream");
}

NcclSide::NcclSide(const Race& race, int rank, const ncclUniqueId& id, cudaStream_t stream)
    : race_(race), cuda_(stream) {
  check(ncclCommInitRank(&comm_, race.ranks, id, rank), "ncclCommInitRank");
}
NcclSide::~NcclSide() { (void)ncclCommDestroy(comm_); }

std::string NcclSide::put(const Operands& o) {
  if (race_.collective == "all_gather") {
    check(ncclAllGather(o.send, o.recv, o.count, ncclFloat32, comm_, cuda_), "ncclAllGather");
  } else if (race_.collective == "reduce_scatter") {
    check(ncclReduceScatter(o.send, o.recv, o.count, ncclFloat32, ncclSum, comm_, cuda_), "ncclReduceScatter");
  } else if (race_.collective == "broadcast") {
    check(ncclBroadcast(o.send, o.recv, o.count, ncclFloat32, 0, comm_, cuda_), "ncclBroadcast");
  } else {
    check(ncclAllReduce(o.send, o.recv, o.count, ncclFloat32, ncclSum, comm_, cuda_), "ncclAllReduce");
  }
  if (race_.blocking) settle();
  return {};
}

void NcclSide::settle() {
  check(cudaStreamSynchronize(cuda_), "the stream");
  ncclResult_t found = ncclSuccess;
  check(ncclCommGetAsyncError(comm_, &found), "ncclCommGetAsyncError");
  check(found, "NCCL");
}

}  // namespace tutti::bench

// How a trial calls the library, and what it is called in messages.
#include "cases/trial.h"

namespace tutti::cases {

tuttiResult_t Trial::issue(tuttiComm_t comm, tuttiStream_t stream) {
  const std::size_t count = case_.count;
  switch (case_.kind) {
    case Kind::kAllReduce:
      return tuttiAllReduce(send_, recv_, count, case_.type, case_.handle, comm, stream);
    case Kind::kReduceScatter:
      return tuttiReduceScatter(send_, recv_, count, case_.type, case_.handle, comm, stream);
    case Kind::kReduce:
      return tuttiReduce(send_, recv_, count, case_.type, case_.handle, case_.root, comm, stream);
    case Kind::kAllGather:
      return tuttiAllGather(send_, recv_, count, case_.type, comm, stream);
    case Kind::kBroadcast:
      return tuttiBroadcast(send_, recv_, count, case_.type, case_.root, comm, stream);
    case Kind::kGather:
      return tuttiGather(send_, recv_, count, case_.type, case_.root, comm, stream);
    case Kind::kScatter:
      return tuttiScatter(send_, recv_, count, case_.type, case_.root, comm, stream);
    case Kind::kAllToAll:
      return tuttiAllToAll(send_, recv_, count, case_.type, comm, stream);
    case Kind::kSendRecv:
      return issue_ring(comm, stream);
    default:
      return issue_uneven(comm, stream);
  }
}

/// The library copies the arrays: they are gone when a group runs.
tuttiResult_t Trial::issue_uneven(tuttiComm_t comm, tuttiStream_t stream) {
  const std::vector<std::size_t> send_counts = send_counts_, send_firsts = send_firsts_;
  const std::vector<std::size_t> recv_counts = recv_counts_, recv_firsts = recv_firsts_;
  if (case_.kind == Kind::kAllGatherV) {
    return tuttiAllGatherV(send_, recv_, send_elements_, recv_counts.data(), recv_firsts.data(), case_.type, comm,
                           stream);
  }
  return tuttiAllToAllV(send_, send_counts.data(), send_firsts.data(), recv_, recv_counts.data(), recv_firsts.data(),
                        case_.type, comm, stream);
}

tuttiResult_t Trial::issue_ring(tuttiComm_t comm, tuttiStream_t stream) {
  tuttiResult_t result = tuttiGroupStart();
  if (result != tuttiSuccess) return result;
  const tuttiResult_t sent = tuttiSend(send_, case_.count, case_.type, (rank_ + 1) % ranks_, comm, stream);
  const tuttiResult_t received = tuttiRecv(recv_, case_.count, case_.type, (rank_ + ranks_ - 1) % ranks_, comm, stream);
  result = tuttiGroupEnd();
  return sent != tuttiSuccess ? sent : received != tuttiSuccess ? received : result;
}

std::string text_of(const Case& one) {
  constexpr const char* kinds[] = {"all_reduce",   "reduce_scatter", "reduce",   "all_gather",
                                   "broadcast",    "gather",         "scatter",  "all_to_all",
                                   "all_gather_v", "all_to_all_v",   "send_recv"};
  constexpr const char* ops[] = {"sum", "prod", "max",    "min",    "avg",  "band",
                                 "bor", "bxor", "mulsum", "affine", "union"};
  std::string text =
      std::string(kinds[static_cast<int>(one.kind)]) + ", " + std::to_string(one.count) + " " + name_of(one.type);
  if (reduces(one.kind)) text += std::string(", ") + ops[static_cast<int>(one.op)];
  return text + ", root " + std::to_string(one.root) + (one.layout.in_place ? ", in place" : ", out of place") +
         ", shifted by " + std::to_string(one.layout.send_shift) + " and " + std::to_string(one.layout.recv_shift) +
         ", seed " + std::to_string(one.seed);
}

}  // namespace tutti::cases

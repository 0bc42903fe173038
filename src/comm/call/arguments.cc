#include "comm/call/arguments.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "executor/executor.h"

namespace tutti {

namespace {

Status check_wire(const CallArguments& a) {
  if (a.wire < 0) return {};
  if (a.type != static_cast<int>(DataType::kFloat32))
    return fail(Code::kInvalidArgument, "{}: a wire type is for float32, not for {}", name_of(a.collective),
                name_of(static_cast<DataType>(a.type)));
  if (a.wire >= kDataTypes || !is_wire_type(static_cast<DataType>(a.wire)))
    return fail(Code::kInvalidArgument, "{}: wire type {} is not a float of 8 or 16 bits", name_of(a.collective),
                a.wire);
  if (a.user != nullptr && a.user->function != nullptr)
    return fail(Code::kInvalidArgument, "{}: an operation made by the user has no wire type", name_of(a.collective));
  return {};
}

Status check_user_operation(const CallArguments& a) {
  const auto type = static_cast<DataType>(a.type);
  if (a.user->function != nullptr || a.user->scalar_type == type) return {};
  return fail(Code::kInvalidArgument, "{}: op {} multiplies by a {}, the buffers hold {}", name_of(a.collective), a.op,
              name_of(a.user->scalar_type), name_of(type));
}

Status check_type(const CallArguments& a) {
  if (a.type < 0 || a.type >= kDataTypes)
    return fail(Code::kInvalidArgument, "{}: datatype {} is not a tuttiDataType_t", name_of(a.collective), a.type);
  if (!reduces(a.collective)) return {};
  TUTTI_TRY(check_wire(a));
  if (a.user != nullptr) return check_user_operation(a);
  if (a.op < 0 || a.op >= kRedOps)
    return fail(Code::kInvalidArgument, "{}: op {} is not a tuttiRedOp_t that exists here", name_of(a.collective),
                a.op);
  const auto type = static_cast<DataType>(a.type);
  const auto op = static_cast<RedOp>(a.op);
  if ((type == DataType::kBool && op == RedOp::kAvg) || (is_float(type) && is_bitwise(op)))
    return fail(Code::kInvalidArgument, "{}: op {} is not defined for {}", name_of(a.collective), name_of(op),
                name_of(type));
  return {};
}

}  // namespace

bool reads_send(const CallArguments& a, int rank) { return has_input(a.collective, rank == a.root); }
bool writes_recv(const CallArguments& a, int rank) { return has_output(a.collective, rank == a.root); }

namespace {

Status check_overlap(const CallArguments& a, int rank, int ranks, std::size_t block) {
  const std::size_t send_bytes = block * static_cast<std::size_t>(send_blocks(a.collective, ranks));
  const std::size_t recv_bytes = block * static_cast<std::size_t>(recv_blocks(a.collective, ranks));
  const auto send = reinterpret_cast<std::uintptr_t>(a.send);
  const auto recv = reinterpret_cast<std::uintptr_t>(a.recv);
  if (send + send_bytes <= recv || recv + recv_bytes <= send) return {};
  // A call is in place if the smaller buffer is this rank's block of the larger one.
  const std::size_t own = block * static_cast<std::size_t>(rank);
  bool in_place = send == recv;
  if (send_bytes < recv_bytes) in_place = send == recv + own;
  if (send_bytes > recv_bytes) in_place = recv == send + own;
  if (in_place) return {};
  return fail(Code::kInvalidArgument, "{}: sendbuff and recvbuff of rank {} overlap and are not the in place form",
              name_of(a.collective), rank);
}

}  // namespace

int send_blocks(Collective c, int ranks) { return count_of(traits_of(c).input, ranks); }
int recv_blocks(Collective c, int ranks) { return count_of(traits_of(c).output, ranks); }

std::size_t host_blocks(Collective c, int ranks, int local, bool in_place) {
  const auto count = [](int blocks) { return static_cast<std::size_t>(blocks); };
  if (c == Collective::kBroadcast) return count(local);  // a rank sends from and receives into one buffer
  if (c == Collective::kReduce) return count(local + 1);
  if (c == Collective::kGather || c == Collective::kScatter) return count(local + ranks);
  const int send = send_blocks(c, ranks), recv = recv_blocks(c, ranks);
  return count(local) * count(in_place ? std::max(send, recv) : send + recv);
}

Status check_arguments(const CallArguments& a, int rank, int ranks) {
  if (a.collective == Collective::kBarrier) return {};
  TUTTI_TRY(check_type(a));
  if (a.blocks != nullptr) [[unlikely]]
    return check_blocks(a, rank, ranks);
  if (is_rooted(a.collective) && (a.root < 0 || a.root >= ranks))
    return fail(Code::kInvalidArgument, "{}: root {} is not a rank of this communicator (0 to {})",
                name_of(a.collective), a.root, ranks - 1);
  const std::size_t element = size_of(static_cast<DataType>(a.type)).value;
  std::size_t all_bytes = 0;  // it is multiplied, not divided, because a division costs as much as all the other checks
  const bool fits = !__builtin_mul_overflow(a.count, element * static_cast<std::size_t>(ranks), &all_bytes) &&
                    all_bytes <= static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  if (!fits)
    return fail(Code::kInvalidArgument, "{}: count {} is larger than memory can be", name_of(a.collective), a.count);
  if (a.count == 0) return {};
  const bool reads = reads_send(a, rank);
  const bool writes = writes_recv(a, rank);
  if (reads && a.send == nullptr)
    return fail(Code::kInvalidArgument, "{}: sendbuff of rank {} is NULL", name_of(a.collective), rank);
  if (writes && a.recv == nullptr)
    return fail(Code::kInvalidArgument, "{}: recvbuff of rank {} is NULL", name_of(a.collective), rank);
  if (!reads || !writes) return {};
  return check_overlap(a, rank, ranks, a.count * element);
}

namespace {

/// Stands for all the counts of a call in its fingerprint; 0 if all of them are 0.
std::uint64_t hash_of_counts(const BlockTable& table) {
  std::uint64_t hash = 0;
  std::uint64_t any = 0;
  for (std::size_t i = 0; i < table.size; ++i) {
    hash = mix64(hash + 0x9e3779b97f4a7c15ull + table.counts[i]);
    any |= table.counts[i];
  }
  return any == 0 ? 0 : hash | 1;
}

}  // namespace

OwnedArguments::OwnedArguments(const CallArguments& arguments, std::shared_ptr<const UserOperation> user)
    : arguments_(arguments), user_(std::move(user)) {
  arguments_.user = user_.get();
  if (arguments.blocks == nullptr) return;
  arrays_ = std::make_unique<Arrays>();
  const BlockArguments& given = *arguments.blocks;
  arrays_->values.reserve(2 * (given.send.size + given.recv.size));
  const auto keep = [this](const std::size_t* values, std::size_t size) {
    const std::size_t begin = arrays_->values.size();
    arrays_->values.insert(arrays_->values.end(), values, values + size);
    return arrays_->values.data() + begin;
  };
  const auto keep_table = [&](const BlockTable& table) {
    const std::size_t* const counts = keep(table.counts, table.size);
    return BlockTable{counts, keep(table.offsets, table.size), table.size};
  };
  arrays_->blocks.send = keep_table(given.send);
  arrays_->blocks.recv = keep_table(given.recv);
  arguments_.blocks = &arrays_->blocks;
}

void describe_call(const CallArguments& a, std::uint64_t sequence, Call* call) {
  const bool typed = a.collective != Collective::kBarrier;
  const bool reduced = reduces(a.collective);
  call->sequence = sequence;
  call->count = a.collective == Collective::kAllGatherV ? hash_of_counts(a.blocks->recv) : a.count;
  call->collective = a.collective;
  call->type = typed ? static_cast<DataType>(a.type) : DataType::kInt8;
  call->op = reduced ? static_cast<RedOp>(a.op) : RedOp::kSum;
  call->root = is_rooted(a.collective) ? Rank{a.root} : kNoRank;
  call->wire = reduced && a.wire >= 0 ? static_cast<DataType>(a.wire) : DataType::kInt8;
  call->memory_unknown = false;
  // If the kernels of the ranks work together, only this field shows that one rank passed host buffers and another one
  // device buffers.
  call->on_device = a.on_device || a.two_levels;
}

}  // namespace tutti

#include "comm/call/call_check.h"

#include <cstdint>

namespace tutti {

Status CallCheck::resolve_and_check(CallArguments* arguments) const {
  if (reduces(arguments->collective)) {
    if (arguments->op >= kRedOps) [[unlikely]]
      arguments->user = operations_.find(arguments->op).get();
    if (arguments->user != nullptr) [[unlikely]]
      arguments->agreed = arguments->user->kind();
    const bool plain = arguments->type == static_cast<int>(DataType::kFloat32) &&
                       (arguments->user == nullptr || arguments->user->function == nullptr);
    if (wire_type_ >= 0 && arguments->wire == CallArguments::kDefaultWire && plain) arguments->wire = wire_type_;
  }
  TUTTI_TRY(check(*arguments));
  if (arguments->wire >= 0 && deterministic_) [[unlikely]]
    return fail(Code::kInvalidArgument, "{}: a wire type cannot be had in the deterministic mode",
                name_of(arguments->collective));
  return {};
}

Status CallCheck::check(const Transfer& transfer) const {
  const bool sends = transfer.kind == Transfer::Kind::kSend;
  const char* const name = sends ? "send" : "receive";
  const bool any = !sends && transfer.peer == kNoRank;
  if (!any && (transfer.peer.value < 0 || transfer.peer.value >= ranks_))
    return fail(Code::kInvalidArgument, "{}: peer {} is not a rank of this communicator (0 to {})", name,
                transfer.peer.value, ranks_ - 1);
  if (static_cast<int>(transfer.type) >= kDataTypes)
    return fail(Code::kInvalidArgument, "{}: datatype {} is not a tuttiDataType_t", name,
                static_cast<int>(transfer.type));
  if (transfer.count.value > SIZE_MAX / 2 / size_of(transfer.type).value)
    return fail(Code::kInvalidArgument, "{}: count {} is larger than memory can be", name, transfer.count.value);
  if (transfer.count.value != 0 && transfer.data == nullptr)
    return fail(Code::kInvalidArgument, "{}: the buffer of rank {} is NULL", name, rank_.value);
  return {};
}

}  // namespace tutti

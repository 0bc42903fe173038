// The C functions that make and destroy operations.
#include <cstring>

#include "comm/api/handle.h"

using tutti::Code;
using tutti::Status;
using tutti::UserOperation;

namespace {

Status add(const UserOperation& operation, tuttiComm_t comm, tuttiRedOp_t* op) {
  const int number = comm->comm->operations().add(operation);
  if (number == 0) return tutti::fail(Code::kInvalidUsage, "too many operations of this communicator are alive");
  *op = static_cast<tuttiRedOp_t>(number);
  return {};
}

}  // namespace

extern "C" {

tuttiResult_t tuttiRedOpCreatePreMulSum(tuttiRedOp_t* op, void* scalar, tuttiDataType_t datatype,
                                        tuttiScalarResidence_t residence, tuttiComm_t comm) {
  return tutti::guard(comm, [&]() -> Status {
    tutti::CallGuard call_guard;
    TUTTI_TRY(call_guard.enter(comm));
    TUTTI_TRY(tutti::require(op, "op"));
    TUTTI_TRY(tutti::require(scalar, "scalar"));
    if (datatype < 0 || static_cast<int>(datatype) >= tutti::kDataTypes)
      return tutti::fail(Code::kInvalidArgument, "datatype {} is not a tuttiDataType_t", static_cast<int>(datatype));
    if (residence != tuttiScalarDevice && residence != tuttiScalarHostImmediate)
      return tutti::fail(Code::kInvalidArgument, "residence {} is not a tuttiScalarResidence_t",
                         static_cast<int>(residence));
    UserOperation operation;
    operation.scalar_type = static_cast<tutti::DataType>(datatype);
    if (residence == tuttiScalarDevice) {
      operation.scalar_place = scalar;
    } else {
      std::memcpy(operation.scalar.data(), scalar, tutti::size_of(operation.scalar_type).value);
    }
    return add(operation, comm, op);
  });
}

tuttiResult_t tuttiRedOpCreateCustom(tuttiRedOp_t* op,
                                     void (*fn)(const void* in, void* inout, size_t count, tuttiDataType_t datatype,
                                                void* user),
                                     int commutative, void* user, tuttiComm_t comm) {
  return tutti::guard(comm, [&]() -> Status {
    tutti::CallGuard call_guard;
    TUTTI_TRY(call_guard.enter(comm));
    TUTTI_TRY(tutti::require(op, "op"));
    if (fn == nullptr) return tutti::fail(Code::kInvalidArgument, "fn is NULL");
    UserOperation operation;
    operation.function = fn;
    operation.user = user;
    operation.commutative = commutative != 0;
    return add(operation, comm, op);
  });
}

tuttiResult_t tuttiRedOpDestroy(tuttiRedOp_t op, tuttiComm_t comm) {
  return tutti::guard(comm, [&]() -> Status {
    tutti::CallGuard call_guard;
    TUTTI_TRY(call_guard.enter(comm));
    if (comm->comm->operations().remove(static_cast<int>(op))) return {};
    return tutti::fail(Code::kInvalidArgument, "op {} was not made for this communicator", static_cast<int>(op));
  });
}

}  // extern "C"

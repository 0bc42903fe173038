#include "user_op.h"

#include <cstdint>
#include <cstring>

#include "number.h"

namespace tutti::perf {
namespace {

template <class T>
void add(const void* in, void* inout, std::size_t count) {
  const auto* from = static_cast<const unsigned char*>(in);
  auto* to = static_cast<unsigned char*>(inout);
  for (std::size_t i = 0; i < count * sizeof(T); i += sizeof(T)) {
    T a{}, b{};  // copied, as buffers need not be aligned
    std::memcpy(&a, from + i, sizeof a);
    std::memcpy(&b, to + i, sizeof b);
    b = static_cast<T>(a + b);
    std::memcpy(to + i, &b, sizeof b);
  }
}

/// Any type, element by element; floats hold whole numbers here.
void add_numbers(const void* in, void* inout, std::size_t count, const TypeName& type) {
  const auto* from = static_cast<const unsigned char*>(in);
  auto* to = static_cast<unsigned char*>(inout);
  for (std::size_t i = 0; i < count * type.bytes; i += type.bytes) {
    std::uint64_t a = 0, b = 0;
    std::memcpy(&a, from + i, type.bytes);
    std::memcpy(&b, to + i, type.bytes);
    std::int64_t sum = static_cast<std::int64_t>(static_cast<std::uint64_t>(number_of(a, type)) +
                                                 static_cast<std::uint64_t>(number_of(b, type)));
    if (type.type == tuttiBool) sum = sum != 0 ? 1 : 0;
    const std::uint64_t bits = element_of(sum, type);
    std::memcpy(to + i, &bits, type.bytes);
  }
}

/// The user's function: a sum.
void add_elements(const void* in, void* inout, std::size_t count, tuttiDataType_t type, void*) {
  switch (type) {
    case tuttiInt32:
    case tuttiUint32:
      return add<std::uint32_t>(in, inout, count);
    case tuttiInt64:
    case tuttiUint64:
      return add<std::uint64_t>(in, inout, count);
    case tuttiFloat32:
      return add<float>(in, inout, count);
    case tuttiFloat64:
      return add<double>(in, inout, count);
    default:
      return add_numbers(in, inout, count, type_of(type));
  }
}

}  // namespace

int scalar_of(const TypeName& type, int rank) { return type.type == tuttiBool ? rank % 3 != 1 : 1 + rank % 2; }

RowOperation::~RowOperation() {
  if (comm_ != nullptr) tuttiRedOpDestroy(handle_, comm_);
}

tuttiResult_t RowOperation::make(Operation op, const TypeName& type, int rank, tuttiComm_t comm) {
  handle_ = static_cast<tuttiRedOp_t>(op);
  if (op < Operation::kMulSum) return tuttiSuccess;
  tuttiResult_t made = tuttiSuccess;
  if (op == Operation::kCustom) {
    made = tuttiRedOpCreateCustom(&handle_, add_elements, 1, nullptr, comm);
  } else {
    std::uint64_t scalar = element_of(scalar_of(type, rank), type);
    made = tuttiRedOpCreatePreMulSum(&handle_, &scalar, type.type, tuttiScalarHostImmediate, comm);
  }
  if (made == tuttiSuccess) comm_ = comm;
  return made;
}

}  // namespace tutti::perf

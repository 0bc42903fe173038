// Element types, reduction operations and collectives, numbered as in tutti.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/units.h"

namespace tutti {

/// Values equal tuttiDataType_t.
enum class DataType : std::uint8_t {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8e4m3 = 10,
  kFloat8e5m2 = 11,
  kInt16 = 12,
  kUint16 = 13,
  kBool = 14,
};
inline constexpr int kDataTypes = 15;

/// Values equal tuttiRedOp_t. From kRedOps on: made by the user, numbered in order of creation on a communicator.
enum class RedOp : std::uint16_t {
  kSum = 0,
  kProd = 1,
  kMax = 2,
  kMin = 3,
  kAvg = 4,
  kBitAnd = 5,
  kBitOr = 6,
  kBitXor = 7,
};
inline constexpr int kRedOps = 8;

/// What a call asks for. The values travel in fingerprints and call boards: append only.
enum class Collective : std::uint8_t {
  kNone = 0,
  kAllReduce = 1,
  kReduceScatter = 2,
  kAllGather = 3,
  kBroadcast = 4,
  kReduce = 5,
  kBarrier = 6,
  kSplit = 7,
  kFinalize = 8,
  kGather = 9,
  kScatter = 10,
  kAllToAll = 11,
  kAllGatherV = 12,
  kAllToAllV = 13,
  kShrink = 14,
  kSendRecv = 15,  ///< sends and receives between pairs: not a collective, it takes no sequence number
};
inline constexpr int kCollectives = 16;

constexpr Bytes size_of(DataType type) {
  constexpr std::uint8_t kSizes[kDataTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1, 2, 2, 1};
  return Bytes{kSizes[static_cast<int>(type)]};
}

constexpr bool is_float(DataType type) {
  switch (type) {
    case DataType::kFloat16:
    case DataType::kFloat32:
    case DataType::kFloat64:
    case DataType::kBfloat16:
    case DataType::kFloat8e4m3:
    case DataType::kFloat8e5m2:
      return true;
    default:
      return false;
  }
}

constexpr bool is_bitwise(RedOp op) { return op >= RedOp::kBitAnd && op <= RedOp::kBitXor; }
constexpr bool is_user_made(RedOp op) { return static_cast<int>(op) >= kRedOps; }

constexpr bool is_rooted(Collective c) {
  return c == Collective::kBroadcast || c == Collective::kReduce || c == Collective::kGather ||
         c == Collective::kScatter;
}

/// Whether schedules exist for the collective itself (a v-form runs those of the plain form).
constexpr bool has_algorithms(Collective c) {
  return (c >= Collective::kAllReduce && c <= Collective::kBarrier) ||
         (c >= Collective::kGather && c <= Collective::kAllToAllV);
}

/// What float32 may travel as, see tuttiConfig_t::wireType.
constexpr bool is_wire_type(DataType type) {
  return type == DataType::kFloat16 || type == DataType::kBfloat16 || type == DataType::kFloat8e4m3 ||
         type == DataType::kFloat8e5m2;
}

/// Names as in logs, flags and files: "float32", "sum", "all_reduce".
const char* name_of(DataType type);
const char* name_of(RedOp op);
const char* name_of(Collective collective);

}  // namespace tutti

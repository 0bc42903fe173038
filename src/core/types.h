// Element types, reduction operations and collectives, numbered as in tutti.h, and what is known of each collective.
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
  kGrow = 16,
};
inline constexpr int kCollectives = 17;

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

TUTTI_HD constexpr bool is_bitwise(RedOp op) { return op >= RedOp::kBitAnd && op <= RedOp::kBitXor; }
constexpr bool is_user_made(RedOp op) { return static_cast<int>(op) >= kRedOps; }

/// What the root of a collective alone does: send its input, or receive an output.
enum class RootRole : std::uint8_t { kNone, kSends, kReceives };
/// How many blocks of the call's count a buffer has: none, one, or one for each rank.
enum class BlockCount : std::uint8_t { kNone, kOne, kRanks };

constexpr int count_of(BlockCount blocks, int ranks) {
  return blocks == BlockCount::kRanks ? ranks : static_cast<int>(blocks);
}

struct CollectiveTraits {
  const char* name;
  Collective schedules;  ///< whose schedules a call runs: its own, of a v-form the plain form's; kNone: it has none
  bool reduces;          ///< it has an operation
  RootRole root;
  BlockCount input;  ///< of a rank that has one; the blocks of a v-form differ in size
  BlockCount output;
};

/// One row for each Collective, in the order of their numbers.
inline constexpr CollectiveTraits kCollectiveTraits[] = {
    {"none", Collective::kNone, false, RootRole::kNone, BlockCount::kNone, BlockCount::kNone},
    {"all_reduce", Collective::kAllReduce, true, RootRole::kNone, BlockCount::kOne, BlockCount::kOne},
    {"reduce_scatter", Collective::kReduceScatter, true, RootRole::kNone, BlockCount::kRanks, BlockCount::kOne},
    {"all_gather", Collective::kAllGather, false, RootRole::kNone, BlockCount::kOne, BlockCount::kRanks},
    {"broadcast", Collective::kBroadcast, false, RootRole::kSends, BlockCount::kOne, BlockCount::kOne},
    {"reduce", Collective::kReduce, true, RootRole::kReceives, BlockCount::kOne, BlockCount::kOne},
    {"barrier", Collective::kBarrier, false, RootRole::kNone, BlockCount::kNone, BlockCount::kNone},
    {"split", Collective::kNone, false, RootRole::kNone, BlockCount::kOne, BlockCount::kRanks},
    {"finalize", Collective::kNone, false, RootRole::kNone, BlockCount::kNone, BlockCount::kNone},
    {"gather", Collective::kGather, false, RootRole::kReceives, BlockCount::kOne, BlockCount::kRanks},
    {"scatter", Collective::kScatter, false, RootRole::kSends, BlockCount::kRanks, BlockCount::kOne},
    {"all_to_all", Collective::kAllToAll, false, RootRole::kNone, BlockCount::kRanks, BlockCount::kRanks},
    {"all_gather_v", Collective::kAllGather, false, RootRole::kNone, BlockCount::kOne, BlockCount::kRanks},
    {"all_to_all_v", Collective::kAllToAll, false, RootRole::kNone, BlockCount::kRanks, BlockCount::kRanks},
    {"shrink", Collective::kNone, false, RootRole::kNone, BlockCount::kNone, BlockCount::kNone},
    {"send_recv", Collective::kNone, false, RootRole::kNone, BlockCount::kNone, BlockCount::kNone},
    {"grow", Collective::kNone, false, RootRole::kNone, BlockCount::kOne, BlockCount::kRanks},
};
static_assert(sizeof(kCollectiveTraits) == kCollectives * sizeof(CollectiveTraits));

/// A number that is no collective has those of kNone.
constexpr const CollectiveTraits& traits_of(Collective c) {
  const auto number = static_cast<unsigned>(c);
  return kCollectiveTraits[number < kCollectives ? number : 0];
}

/// Whether the collective has an operation.
constexpr bool reduces(Collective c) { return traits_of(c).reduces; }
constexpr bool is_rooted(Collective c) { return traits_of(c).root != RootRole::kNone; }
/// Whether schedules exist for the collective (a v-form runs those of the plain form).
constexpr bool has_algorithms(Collective c) { return traits_of(c).schedules != Collective::kNone; }
/// The collective whose schedules a v-form runs; any other collective itself.
constexpr Collective scheduled_as(Collective c) { return has_algorithms(c) ? traits_of(c).schedules : c; }
/// Whether a rank sends its input, and receives an output: all ranks do, or the root alone.
constexpr bool has_input(Collective c, bool is_root) { return is_root || traits_of(c).root != RootRole::kSends; }
constexpr bool has_output(Collective c, bool is_root) { return is_root || traits_of(c).root != RootRole::kReceives; }

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

#include "names.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tutti::perf {
namespace {

constexpr std::array<TypeName, 15> kTypes{{
    {tuttiInt8, "int8", nullptr, 1, false},
    {tuttiUint8, "uint8", nullptr, 1, false},
    {tuttiInt16, "int16", nullptr, 2, false},
    {tuttiUint16, "uint16", nullptr, 2, false},
    {tuttiInt32, "int32", nullptr, 4, false},
    {tuttiUint32, "uint32", nullptr, 4, false},
    {tuttiInt64, "int64", nullptr, 8, false},
    {tuttiUint64, "uint64", nullptr, 8, false},
    {tuttiFloat16, "half", "float16", 2, true},
    {tuttiFloat32, "float", "float32", 4, true},
    {tuttiFloat64, "double", "float64", 8, true},
    {tuttiBfloat16, "bfloat16", "bf16", 2, true},
    {tuttiFloat8e4m3, "f8e4m3", "float8e4m3", 1, true},
    {tuttiFloat8e5m2, "f8e5m2", "float8e5m2", 1, true},
    {tuttiBool, "bool", nullptr, 1, false},
}};

constexpr std::array<OpName, 10> kOps{{
    {Operation::kSum, "sum", true},
    {Operation::kProd, "prod", true},
    {Operation::kMax, "max", true},
    {Operation::kMin, "min", true},
    {Operation::kAvg, "avg", true},
    {Operation::kBitAnd, "band", true},
    {Operation::kBitOr, "bor", true},
    {Operation::kBitXor, "bxor", true},
    {Operation::kMulSum, "mulsum", true},
    {Operation::kCustom, "custom", false},
}};

constexpr const char* kVector = "bytes of the vector, count elements";
constexpr const char* kBlocks = "bytes of the whole vector, ranks times count elements";
constexpr const char* kShares =
    "bytes of the whole vector, count elements; rank r's share is in proportion to r mod 3 + 1";
constexpr const char* kPairs =
    "bytes of the largest total that a rank sends or receives, count elements; rank s sends rank d an amount in "
    "proportion to (s + 2d + 1) mod 3";
constexpr const char* kNothing = "no data moves";

constexpr std::array<CollectiveName, 12> kCollectives{{
    {Collective::kAllReduce, "all_reduce", nullptr, true, false, true, kVector},
    {Collective::kReduceScatter, "reduce_scatter", nullptr, true, false, true, kBlocks},
    {Collective::kAllGather, "all_gather", nullptr, false, false, true, kBlocks},
    {Collective::kBroadcast, "broadcast", nullptr, false, true, true, kVector},
    {Collective::kReduce, "reduce", nullptr, true, true, true, kVector},
    {Collective::kBarrier, "barrier", nullptr, false, false, false, kNothing},
    {Collective::kGather, "gather", nullptr, false, true, true, kBlocks},
    {Collective::kScatter, "scatter", nullptr, false, true, true, kBlocks},
    {Collective::kAllToAll, "all_to_all", "alltoall", false, false, true, kBlocks},
    {Collective::kAllGatherV, "all_gather_v", "allgatherv", false, false, true, kShares},
    {Collective::kAllToAllV, "all_to_all_v", "alltoallv", false, false, false, kPairs},
    {Collective::kSendRecv, "send_recv", "sendrecv", false, false, false, kVector},
}};

template <class Row, std::size_t n>
const Row* find_by_either(const std::array<Row, n>& rows, const std::string& name) {
  for (const Row& row : rows) {
    if (name == row.name || (row.alias != nullptr && name == row.alias)) return &row;
  }
  return nullptr;
}

}  // namespace

std::span<const TypeName> type_names() { return kTypes; }
std::span<const OpName> op_names() { return kOps; }
std::span<const CollectiveName> collective_names() { return kCollectives; }

const TypeName* find_type(const std::string& name) { return find_by_either(kTypes, name); }

const TypeName& type_of(tuttiDataType_t type) {
  for (const TypeName& row : kTypes) {
    if (row.type == type) return row;
  }
  return kTypes[0];
}

const OpName* find_op(const std::string& name) {
  for (const OpName& row : kOps) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

const char* name_of(Operation op) { return kOps[static_cast<std::size_t>(op)].name; }

const CollectiveName* find_collective(const std::string& name) { return find_by_either(kCollectives, name); }

bool is_defined(Operation op, const TypeName& type) {
  const bool bitwise = op == Operation::kBitAnd || op == Operation::kBitOr || op == Operation::kBitXor;
  if (bitwise) return !type.floating;
  return op != Operation::kAvg || type.type != tuttiBool;
}

std::optional<std::size_t> parse_size(const std::string& text) {
  if (text.empty() || std::strchr("0123456789.", text[0]) == nullptr) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  double unit = 1;
  switch (*end) {
    case 'k':
    case 'K':
      unit = 1024.0;
      break;
    case 'm':
    case 'M':
      unit = 1024.0 * 1024;
      break;
    case 'g':
    case 'G':
      unit = 1024.0 * 1024 * 1024;
      break;
    case '\0':
      break;
    default:
      return std::nullopt;
  }
  if (*end != '\0') ++end;
  if (*end == 'B' || *end == 'b') ++end;
  const double bytes = value * unit;
  if (*end != '\0' || !std::isfinite(bytes) || bytes < 0 || bytes > 1e15) return std::nullopt;
  return static_cast<std::size_t>(std::llround(bytes));
}

std::string size_text(std::size_t bytes) {
  const char* units[] = {"", "K", "M", "G"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 3) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.4g%s", value, units[unit]);
  return text;
}

}  // namespace tutti::perf

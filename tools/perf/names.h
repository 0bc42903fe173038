// The words of the command line: types, operations and collectives by name, with what the benchmark must know of each.
#pragma once

#include <tutti/tutti.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace tutti::perf {

struct TypeName {
  tuttiDataType_t type;
  const char* name;   ///< as nccl-tests prints it
  const char* alias;  ///< another accepted spelling, or nullptr
  std::size_t bytes;  ///< of one element
  bool floating;
};
std::span<const TypeName> type_names();

/// The built-in operations have the numbers of tuttiRedOp_t; the last two are created for the row that measures them.
enum class Operation { kSum, kProd, kMax, kMin, kAvg, kBitAnd, kBitOr, kBitXor, kMulSum, kCustom };

struct OpName {
  Operation op;
  const char* name;
  bool in_all;  ///< whether "all" includes it
};
std::span<const OpName> op_names();

enum class Collective {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kBarrier,
  kGather,
  kScatter,
  kAllToAll,
  kAllGatherV,
  kAllToAllV,
  kSendRecv,
};

struct CollectiveName {
  Collective collective;
  const char* name;
  const char* alias;  ///< nccl-tests' spelling, or nullptr
  bool reduces;
  bool rooted;
  bool in_place;        ///< whether there is an in place form to measure
  const char* size_is;  ///< what the columns size and count mean
};
std::span<const CollectiveName> collective_names();

const TypeName* find_type(const std::string& name);
const TypeName& type_of(tuttiDataType_t type);
const OpName* find_op(const std::string& name);
const char* name_of(Operation op);
const CollectiveName* find_collective(const std::string& name);

/// Whether tutti.h defines the operation for the type (no bitwise operations on floats, no average of booleans).
bool is_defined(Operation op, const TypeName& type);

/// Reads "8", "64K", "1.5M", "2G" (powers of 1024, decimals allowed). Returns nullopt if the text is not a size.
std::optional<std::size_t> parse_size(const std::string& text);

/// Writes 1536 as "1.5K".
std::string size_text(std::size_t bytes);

}  // namespace tutti::perf

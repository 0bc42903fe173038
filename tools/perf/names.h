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

struct OpName {
  tuttiRedOp_t op;
  const char* name;
};
std::span<const OpName> op_names();

enum class Collective { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kReduce, kBarrier };

struct CollectiveName {
  Collective collective;
  const char* name;
  bool reduces;
  bool rooted;
};
std::span<const CollectiveName> collective_names();

const TypeName* find_type(const std::string& name);
const TypeName& type_of(tuttiDataType_t type);
const OpName* find_op(const std::string& name);
const CollectiveName* find_collective(const std::string& name);

/// Whether api.md defines the operation for the type (no bitwise operations on floats, no average of booleans).
bool is_defined(tuttiRedOp_t op, const TypeName& type);

/// "8", "64K", "1.5M", "2G": powers of 1024, decimals allowed; nothing when the text is not a size.
std::optional<std::size_t> parse_size(const std::string& text);

/// 1536 -> "1.5K".
std::string size_text(std::size_t bytes);

}  // namespace tutti::perf

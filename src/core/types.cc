#include "core/types.h"

namespace tutti {

const char* name_of(DataType type) {
  static constexpr const char* kNames[kDataTypes] = {"int8",       "uint8",      "int32",   "uint32",  "int64",
                                                     "uint64",     "float16",    "float32", "float64", "bfloat16",
                                                     "float8e4m3", "float8e5m2", "int16",   "uint16",  "bool"};
  const auto i = static_cast<unsigned>(type);
  return i < kDataTypes ? kNames[i] : "unknown type";
}

const char* name_of(RedOp op) {
  static constexpr const char* kNames[kRedOps] = {"sum", "prod", "max", "min", "avg", "bitand", "bitor", "bitxor"};
  const auto i = static_cast<unsigned>(op);
  return i < kRedOps ? kNames[i] : "unknown operation";
}

const char* name_of(Collective collective) {
  return static_cast<unsigned>(collective) < kCollectives ? traits_of(collective).name : "unknown collective";
}

}  // namespace tutti

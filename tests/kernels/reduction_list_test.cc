// Covers kernels/reduction_list.h.
#include "kernels/reduction_list.h"

#include <gtest/gtest.h>

#include <map>
#include <typeindex>
#include <utility>
#include <vector>

namespace tutti {
namespace {

struct Entry {
  DataType type;
  RedOp op;
  std::pair<std::type_index, std::type_index> code;  ///< the format and the operation
};

struct Recorder {
  std::vector<Entry> entries;

  template <class Format, class Op>
  void add(DataType type, RedOp op) {
    entries.push_back({type, op, {typeid(Format), typeid(Op)}});
  }
};

/// Records the pairs of one type.
struct TypeRecorder : Recorder {
  DataType wanted{};
  bool is_other(DataType type) const { return type != wanted; }
};

TEST(ReductionList, PairsOfOneFormatAndOperationHaveTheirFirstInCommon) {
  Recorder all;
  portable::list_reductions(all);
  std::map<std::pair<std::type_index, std::type_index>, Entry> firsts;
  for (const Entry& entry : all.entries) {
    const Entry& first = firsts.emplace(entry.code, entry).first->second;
    const portable::TypeAndOp alike = portable::first_alike(entry.type, entry.op);
    EXPECT_TRUE(alike.is(first.type, first.op)) << name_of(entry.type) << ", operation " << static_cast<int>(entry.op);
  }
  EXPECT_LT(firsts.size(), all.entries.size());
}

TEST(ReductionList, ASinkOfOneTypeGetsItsPairs) {
  Recorder all;
  portable::list_reductions(all);
  for (int t = 0; t < kDataTypes; ++t) {
    TypeRecorder some;
    some.wanted = static_cast<DataType>(t);
    portable::list_reductions(some);
    std::size_t pairs = 0;
    for (const Entry& entry : all.entries) pairs += entry.type == some.wanted ? 1 : 0;
    EXPECT_EQ(some.entries.size(), pairs);
    for (const Entry& entry : some.entries) EXPECT_EQ(entry.type, some.wanted);
  }
}

}  // namespace
}  // namespace tutti

// Covers kernels/device/device_integers.cu, kernels/device/device_reals.cu, kernels/device/device_small_floats.cu.
// The PTX of the kernels of reductions against an oracle: every type and operation.
#include <cxxabi.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <typeinfo>

#include "kernels/all_types.h"
#include "kernels/device/device_kernel_table.h"
#include "kernels/kernels.h"
#include "kernels/oracle.h"
#include "kernels/reduction_list.h"
#include "ptx/grid.h"
#include "support/seed.h"

namespace tutti::ptx {

extern const Module device_integers, device_reals, device_small_floats;

namespace {

using oracle::Row;

std::string readable(const char* mangled) {
  int status = 0;
  char* const text = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  std::string result = text != nullptr ? text : "";
  std::free(text);
  return result;
}

std::map<std::string, const Kernel*> all_kernels() {
  std::map<std::string, const Kernel*> kernels;
  for (const Module* const module : {&device_integers, &device_reals, &device_small_floats})
    for (const Kernel& kernel : module->kernels) kernels[readable(kernel.name)] = &kernel;
  return kernels;
}

/// Finds the kernel of a type and operation by the name that the compiler gave it.
struct KernelOf {
  DataType type;
  RedOp op;
  const Kernel* kernel = nullptr;
  std::size_t element = 0;  ///< bytes of the kernel's format

  KernelOf(DataType own_type, RedOp own_op) : type(own_type), op(own_op) { portable::list_reductions(*this); }
  template <class Format, class Op>
  void add(DataType own_type, RedOp own_op) {
    if (own_type != type || own_op != op) return;
    static const std::map<std::string, const Kernel*> kernels = all_kernels();
    const std::string name = "void tutti::device::reduce_kernel<" + readable(typeid(Format).name()) + ", " +
                             readable(typeid(Op).name()) + ">(tutti::device::Buffers)";
    const auto found = kernels.find(name);
    if (found == kernels.end()) ADD_FAILURE() << "no kernel is named " << name;
    kernel = found == kernels.end() ? nullptr : found->second;
    element = sizeof(typename Format::Storage);
  }
};

struct Layout {
  std::size_t destination = 0;  ///< bytes beyond a multiple of 16
  std::size_t source = 0;
  bool in_place = false;
  unsigned blocks = 2;
};

class PtxReductions : public ::testing::TestWithParam<DataType> {
 protected:
  DataType type() const { return GetParam(); }

  void expect_right(RedOp op, const std::vector<Row>& rows, std::uint32_t divisor, const Layout& layout) const {
    const KernelOf found(type(), op);
    ASSERT_NE(found.kernel, nullptr);
    const std::size_t bytes = rows[0].size();
    std::vector<Row> memory(rows.size() + 2, Row(bytes + 32, 0xe7));
    const auto place = [&](std::size_t i, std::size_t beyond) {
      return memory[i].data() + (0 - reinterpret_cast<std::uintptr_t>(memory[i].data())) % 16 + beyond;
    };
    device::Buffers buffers{};
    buffers.source_count = static_cast<int>(rows.size());
    buffers.destination_count = 2;
    buffers.count = bytes / found.element;
    buffers.divisor = divisor;
    unsigned char* const to[] = {place(0, layout.destination), place(1, layout.destination)};
    std::copy(to, to + 2, buffers.destinations);
    for (std::size_t k = 0; k < rows.size(); ++k) {
      unsigned char* const from = layout.in_place && k == 0 ? to[0] : place(k + 2, k == 0 ? layout.source : 0);
      std::copy(rows[k].begin(), rows[k].end(), from);
      buffers.sources[k] = from;
    }
    run(*found.kernel, &buffers, layout.blocks);
    const Row expected = oracle::reduce_rows(type(), op, rows, divisor);
    for (const unsigned char* const one : to)
      ASSERT_EQ(std::mismatch(expected.begin(), expected.end(), one).first - expected.begin(),
                static_cast<std::ptrdiff_t>(bytes))
          << name_of(op) << " of " << rows.size() << " sources";
    EXPECT_EQ(*(to[0] + bytes), 0xe7) << "written behind the end";
  }

  template <class Body>
  void for_each_operation(const Body& body) const {
    for (int op = 0; op < kRedOps; ++op) {
      if (reduce_kernel(type(), static_cast<RedOp>(op)) == nullptr) continue;
      body(static_cast<RedOp>(op));
      if (HasFatalFailure()) return;
    }
  }
};

// Large enough for each way to load packs, with packs and elements left over.
TEST_P(PtxReductions, RandomData) {
  SCOPED_TRACE(test::seed_text());
  std::mt19937 random(test::test_seed());
  const std::size_t size = size_of(type()).value;
  for_each_operation([&](RedOp op) {
    for (const std::size_t sources : {1, 2, 3, 8}) {
      for (const std::size_t count : {std::size_t{5}, std::size_t{20011} / size}) {
        Layout layout;
        layout.destination = random() % 16 / size * size;
        layout.source = random() % 2 == 0 ? layout.destination : random() % 16 / size * size;
        layout.in_place = random() % 2 == 0;
        const auto divisor = op == RedOp::kAvg ? static_cast<std::uint32_t>(random() % 9 + 1) : 1;
        expect_right(op, oracle::random_rows(type(), sources, count, random()), divisor, layout);
        if (HasFatalFailure()) return;
      }
    }
  });
}

// All pairs of 8-bit values, all 16-bit values with the special ones.
TEST_P(PtxReductions, EveryPairOfValues) {
  const std::vector<Row> rows = oracle::exhaustive_rows(type(), 4);
  for_each_operation([&](RedOp op) {
    for (const std::uint32_t divisor : {1u, 2u, 3u, 0x80000001u}) {
      if (op == RedOp::kAvg || divisor == 1) expect_right(op, rows, divisor, {});
      if (HasFatalFailure()) return;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Types, PtxReductions, testing::ValuesIn(kAllTypes), name_of_type);

}  // namespace
}  // namespace tutti::ptx

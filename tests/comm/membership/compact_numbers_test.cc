// Covers comm/membership/compact_numbers.cc.
#include "comm/membership/compact_numbers.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(CompactNumbers, ComeBackWhateverTheLargestIs) {
  for (const std::uint32_t largest : {0u, 1u, 255u, 256u, 65535u, 65536u, 131071u, (1u << 24) - 1, 1u << 24, ~0u}) {
    const std::vector<std::uint32_t> numbers{0, largest, largest / 2, largest / 3, 0, largest};
    const CompactNumbers compact(numbers);
    ASSERT_EQ(compact.size(), numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(compact[i], numbers[i]) << largest;
  }
  EXPECT_EQ(CompactNumbers().size(), 0u);
  EXPECT_EQ(CompactNumbers(std::vector<std::uint32_t>()).size(), 0u);
}

}  // namespace
}  // namespace tutti

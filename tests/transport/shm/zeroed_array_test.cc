// Covers transport/shm/zeroed_array.h.
#include "transport/shm/zeroed_array.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace tutti {
namespace {

struct Element {
  const void* place = nullptr;
  std::uint64_t count = 0;
};

TEST(ZeroedArray, IsZeroAndKeepsWhatIsWritten) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{1000}, std::size_t{1} << 20}) {
    ZeroedArray<Element> array(size);
    for (const std::size_t at : {std::size_t{0}, size / 2, size - 1}) {
      EXPECT_EQ(array[at].place, nullptr);
      EXPECT_EQ(array[at].count, 0u);
    }
    array[size - 1].count = 7;
    EXPECT_EQ(array[size - 1].count, 7u);
  }
}

TEST(ZeroedArray, ALargeOneTakesMemoryOnlyForWhatIsUsed) {
  constexpr std::size_t kSize = std::size_t{1} << 20;
  ZeroedArray<Element> array(kSize);
  array[kSize / 2].count = 1;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident(kSize * sizeof(Element) / page);
  ASSERT_EQ(::mincore(&array[0], kSize * sizeof(Element), resident.data()), 0);
  const auto used = std::count_if(resident.begin(), resident.end(), [](unsigned char flags) { return flags & 1; });
  EXPECT_GE(used, 1);
  EXPECT_LE(static_cast<std::size_t>(used), resident.size() / 2) << "a huge page at most";
}

TEST(ZeroedArray, MoreThanThereIsIsRefused) {
  EXPECT_THROW(ZeroedArray<Element>(std::size_t{1} << 58), std::bad_alloc);
}

}  // namespace
}  // namespace tutti

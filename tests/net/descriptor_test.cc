// Covers net/descriptor.h.
// A descriptor is closed once, by its last owner.
#include "net/descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <utility>

namespace tutti {
namespace {

bool is_open(int descriptor) { return ::fcntl(descriptor, F_GETFD) >= 0; }

TEST(Descriptor, OwnsExactlyOnce) {
  const int value = ::dup(0);
  {
    Descriptor first(value);
    Descriptor second(std::move(first));
    EXPECT_FALSE(first.valid());  // NOLINT: a moved-from Descriptor is empty by contract
    EXPECT_EQ(second.get(), value);
    first = std::move(second);
    EXPECT_TRUE(is_open(value));
  }
  EXPECT_FALSE(is_open(value));
}

}  // namespace
}  // namespace tutti

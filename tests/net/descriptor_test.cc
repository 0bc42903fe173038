// Covers net/descriptor.h, net/descriptor.cc.
// A descriptor is closed once, by its last owner.
#include "net/descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
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

/// The process's limits, for a scope.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t most) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit lower{most, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &lower), 0);
  }
  ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;
  rlim_t hard() const { return before_.rlim_max; }
  static rlim_t now() {
    rlimit limit{};
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
    return limit.rlim_cur;
  }

 private:
  rlimit before_{};
};

TEST(DescriptorLimit, IsRaisedAsFarAsTheHardLimitAllowsAndNeverLowered) {
  const DescriptorLimit limit(100);
  allow_descriptors(90);
  EXPECT_EQ(DescriptorLimit::now(), 100u);
  allow_descriptors(200);
  EXPECT_EQ(DescriptorLimit::now(), 200u);
  allow_descriptors(std::size_t{limit.hard()} + 1);
  EXPECT_EQ(DescriptorLimit::now(), limit.hard());
}

}  // namespace
}  // namespace tutti

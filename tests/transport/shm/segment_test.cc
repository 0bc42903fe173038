// Covers transport/shm/segment.cc.
// Segments: sealed anonymous memory, and what adopt() refuses.
#include "transport/shm/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "net/descriptor.h"

namespace tutti {
namespace {

constexpr Bytes kSize{1 << 20};

bool is_open(int descriptor) { return ::fcntl(descriptor, F_GETFD) >= 0; }

int memory_file(Bytes bytes, int seals) {
  const int descriptor = ::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  EXPECT_EQ(::ftruncate(descriptor, static_cast<off_t>(bytes.value)), 0);
  EXPECT_EQ(::fcntl(descriptor, F_ADD_SEALS, seals), 0);
  return descriptor;
}

TEST(Segment, IsZeroSparseSealedAndCloseOnExec) {
  std::shared_ptr<Segment> segment;
  ASSERT_TRUE(Segment::create(Bytes(std::size_t{1} << 33), &segment).ok());  // larger than this test may use
  EXPECT_EQ(segment->size().value, std::size_t{1} << 33);
  EXPECT_EQ(segment->data()[std::size_t{1} << 32], std::byte{0});
  struct stat found {};
  ASSERT_EQ(::fstat(segment->descriptor(), &found), 0);
  EXPECT_LE(found.st_blocks, 64);
  EXPECT_NE(::fcntl(segment->descriptor(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_NE(::ftruncate(segment->descriptor(), 0), 0);
  EXPECT_NE(::ftruncate(segment->descriptor(), std::int64_t{1} << 34), 0);
}

TEST(Segment, AdoptedMemoryIsTheSameMemory) {
  std::shared_ptr<Segment> original;
  std::shared_ptr<Segment> adopted;
  ASSERT_TRUE(Segment::create(kSize, &original).ok());
  const int copy = ::dup(original->descriptor());
  ASSERT_TRUE(Segment::adopt(copy, kSize, &adopted).ok());
  original->data()[4711] = std::byte{42};
  EXPECT_EQ(adopted->data()[4711], std::byte{42});
  original.reset();
  EXPECT_EQ(adopted->data()[4711], std::byte{42});
  adopted.reset();
  EXPECT_FALSE(is_open(copy));
}

struct Refusal {
  const char* what;
  int descriptor;
  const char* text;
};

TEST(Segment, PartsStayWithinTheWhole) {
  std::shared_ptr<Segment> whole;
  ASSERT_TRUE(Segment::create(Bytes(3 * 4096), &whole).ok());
  const auto part = Segment::part(whole, Bytes(4096), Bytes(8192), Bytes(4096));
  ASSERT_NE(part, nullptr);
  EXPECT_EQ(part->front(), whole->data() + 4096);
  EXPECT_EQ(part->data(), whole->data() + 8192);
  EXPECT_EQ(whole->front(), whole->data());
  EXPECT_EQ(Segment::part(whole, Bytes(0), Bytes(8192), Bytes(4097)), nullptr);
  EXPECT_EQ(Segment::part(whole, Bytes(0), Bytes(~std::size_t{0}), Bytes(1)), nullptr);
  EXPECT_EQ(Segment::part(whole, Bytes(8193), Bytes(0), Bytes(4096)), nullptr) << "the front";
}

TEST(Segment, AdoptRefusesWhatCouldFault) {
  std::string path = ::testing::TempDir() + "tutti-segment-XXXXXX";
  const int file = ::mkstemp(path.data());
  ASSERT_EQ(::ftruncate(file, static_cast<off_t>(kSize.value)), 0);
  constexpr int kAll = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  const Refusal refusals[] = {
      {"too small", memory_file(Bytes(4096), kAll), "4096 bytes"},
      {"too large", memory_file(kSize * 2, kAll), "bytes, not"},
      {"can shrink", memory_file(kSize, F_SEAL_GROW | F_SEAL_SEAL), "not sealed"},
      {"can be unsealed later", memory_file(kSize, F_SEAL_GROW), "not sealed"},
      {"a file with a name", file, "not an anonymous"},
      {"not a file", ::open("/dev/null", O_RDWR | O_CLOEXEC), "not an anonymous"},
      {"not open", -1, "Bad file descriptor"},
  };
  for (const Refusal& refusal : refusals) {
    std::shared_ptr<Segment> segment;
    const Status status = Segment::adopt(refusal.descriptor, kSize, &segment);
    EXPECT_EQ(status.code(), Code::kSystemError) << refusal.what;
    EXPECT_NE(status.text().find(refusal.text), std::string::npos) << refusal.what << ": " << status.text();
    EXPECT_EQ(segment, nullptr) << refusal.what;
    EXPECT_FALSE(is_open(refusal.descriptor)) << refusal.what;
  }
  ::unlink(path.c_str());
}

// Sealed and of the right size, but the first touch of a page that is not there is SIGBUS.
TEST(Segment, AdoptRefusesHugePages) {
  constexpr Bytes kHugePage{2 << 20};
  const int descriptor = ::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
  if (descriptor < 0) GTEST_SKIP() << "this system has no huge pages";
  ASSERT_EQ(::ftruncate(descriptor, static_cast<off_t>(kHugePage.value)), 0);
  ASSERT_EQ(::fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  std::shared_ptr<Segment> segment;
  const Status status = Segment::adopt(descriptor, kHugePage, &segment);
  EXPECT_EQ(status.code(), Code::kSystemError);
  EXPECT_NE(status.text().find("ordinary pages"), std::string::npos) << status.text();
}

TEST(Segment, FailuresNameTheLimit) {
  std::shared_ptr<Segment> segment;
  EXPECT_EQ(Segment::create(Bytes(0), &segment).code(), Code::kInternalError);
  const Status huge = Segment::create(Bytes(std::size_t{1} << 62), &segment);
  EXPECT_EQ(huge.code(), Code::kSystemError);
  EXPECT_NE(huge.text().find("4611686018427387904 bytes"), std::string::npos) << huge.text();

  const int next = ::dup(0);  // the lowest free descriptor: with the limit there, none is left
  ::close(next);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(next);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const Status full = Segment::create(kSize, &segment);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(full.code(), Code::kSystemError);
  EXPECT_NE(full.text().find("ulimit -n"), std::string::npos) << full.text();
}

}  // namespace
}  // namespace tutti

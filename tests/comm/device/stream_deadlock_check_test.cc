// Covers comm/device/stream_deadlock_check.cc.
// Calls on one CUDA stream that would wait for each other are seen before they are made.
#include "comm/device/stream_deadlock_check.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <future>

namespace tutti {
namespace {

StreamKey place_of(int& handle, int device = 0) {
  StreamKey place;
  place.device = device;
  place.handle = &handle;
  return place;
}

Status enter(StreamDeadlockCheck& check, int rank, const StreamKey& place, std::uint64_t number) {
  return check.enter(Rank{rank}, {&place, 1}, number);
}

TEST(StreamDeadlocks, RefuseWhatStandsBehindACallThatWaitsForIt) {
  int a = 0, b = 0;
  StreamDeadlockCheck check(2);
  EXPECT_TRUE(enter(check, 0, place_of(a), 1).ok());
  EXPECT_EQ(enter(check, 1, place_of(a), 1).code(), Code::kInvalidUsage);
  EXPECT_EQ(enter(check, 1, place_of(a), 1).code(), Code::kInvalidUsage) << "asked again";
  EXPECT_TRUE(enter(check, 1, place_of(b), 1).ok());
  EXPECT_TRUE(enter(check, 1, place_of(a), 2).ok()) << "the first one ends without it";
  EXPECT_TRUE(enter(check, 0, place_of(b), 2).ok());
  EXPECT_TRUE(enter(check, 0, place_of(a), 3).ok());
  EXPECT_TRUE(enter(check, 0, place_of(b), 4).ok());
  EXPECT_FALSE(enter(check, 1, place_of(b), 3).ok()) << "call 4 of rank 0 needs what comes behind it";
}

TEST(StreamDeadlocks, TellPlacesApart) {
  int a = 0, b = 0;
  StreamDeadlockCheck check(4);
  EXPECT_TRUE(enter(check, 0, place_of(a), 1).ok());
  EXPECT_TRUE(enter(check, 1, place_of(a, 1), 1).ok()) << "another device";
  StreamKey other_thread = place_of(a), captured = place_of(a);
  other_thread.thread = stream_thread();
  captured.capture = 7;
  EXPECT_TRUE(enter(check, 2, other_thread, 1).ok());
  EXPECT_TRUE(enter(check, 3, captured, 1).ok()) << "two graphs may be captured on one stream";
  StreamKey common = place_of(b), joined = place_of(a);
  common.is_default = true;
  common.is_apart = joined.is_apart = false;
  StreamDeadlockCheck next(2);
  EXPECT_TRUE(enter(next, 0, joined, 1).ok());
  EXPECT_FALSE(enter(next, 1, common, 1).ok()) << "the default stream waits for it";
  EXPECT_TRUE(enter(next, 1, place_of(b), 1).ok());
}

TEST(StreamDeadlocks, NoTwoThreadsAreTheSame) {
  const std::uint64_t here = stream_thread();
  const std::uint64_t there = std::async(std::launch::async, stream_thread).get();
  const std::uint64_t later = std::async(std::launch::async, stream_thread).get();
  EXPECT_EQ(here, stream_thread());
  EXPECT_NE(here, there);
  EXPECT_NE(there, later);
}

}  // namespace
}  // namespace tutti

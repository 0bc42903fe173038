// The kinds of shortage, and the points of a job at which each is tried.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <string>

#include "shortage/shortage.h"
#include "support/depth.h"

namespace tutti::test {

struct Shortage {
  const char* name;
  Scarce kind;
  bool lasting;
  const char* word;        ///< in the text of one of the ranks, or in the log
  long most_points = 300;  ///< tried in all, and in a short run
  long points = 50;
};

/// The first of them are no lack of mappings.
inline constexpr std::size_t kUnmapped = 5;
inline constexpr std::array<Shortage, 7> kShortages{{
    {"memory", Scarce::kMemory, false, "memory"},
    {"memory_from_there_on", Scarce::kMemory, true, "memory", 20, 4},
    {"descriptors", Scarce::kDescriptors, true, "Too many open files", 1000, 10},
    {"threads", Scarce::kThreads, false, "thread"},
    {"threads_from_there_on", Scarce::kThreads, true, "thread", 200, 10},
    {"mappings", Scarce::kMappings, false, "Cannot allocate memory"},
    {"mappings_from_there_on", Scarce::kMappings, true, "Cannot allocate memory"},
}};

/// No job asks so often for anything.
inline constexpr long kNever = 1'000'000'000;

/// What a job came to.
struct Ending {
  bool orderly = false;     ///< each process ended by itself, with exit code 0
  bool successful = false;  ///< and so did all calls of all ranks
  long requests = 0;        ///< for what is scarce
  std::string words;        ///< of the ranks and of the log
};

/// Runs the job with its k-th request failing, for k through all of them or a sample. `run`: a job whose k-th request
/// fails.
inline void expect_errors_at_points(const Shortage& shortage, const std::function<Ending(long k)>& run) {
  const Ending whole = run(kNever);
  ASSERT_TRUE(whole.orderly && whole.successful) << whole.words;
  const long requests = whole.requests;
  if (requests == 0) GTEST_SKIP() << "a job of this kind asks for none";
  ::testing::Test::RecordProperty("requests", static_cast<int>(requests));
  const long step = std::max(1L, requests / points_tried(shortage.most_points, shortage.points));
  const char* const only = std::getenv("TEST_REQUEST");  // this one alone
  int failures = 0;
  for (long k = only != nullptr ? std::atol(only) : 1; k <= requests; k += only != nullptr ? requests : step) {
    const std::string where = "request " + std::to_string(k) + " of " + std::to_string(requests) + ": ";
    const auto begin = std::chrono::steady_clock::now();
    const Ending ending = run(k);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    ASSERT_TRUE(ending.orderly) << where << ending.words;
    EXPECT_LT(took.count(), 15) << where << ending.words;
    if (ending.successful) continue;  // it could do without
    ++failures;
    EXPECT_NE(ending.words.find(shortage.word), std::string::npos) << where << ending.words;
  }
  ::testing::Test::RecordProperty("failures", failures);
  if (only == nullptr) {
    EXPECT_GT(failures, 0) << "the case checks nothing";
  }
}

}  // namespace tutti::test

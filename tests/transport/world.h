// Worlds: ways to give every rank an endpoint and run a body on all of them at once. A world has
//   using End = an endpoint;
//   static constexpr std::uint64_t kSmallMessages;                     // how many take it about a second at most
//   static void run(WorldSize size, std::function<void(End&)> body);   // fails the test with the bodies' failures
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "transport/shm/shm.h"
#include "transport/traffic.h"

namespace tutti::testing_traffic {

struct WorldSize {
  int ranks = 2;
  int lanes = 1;
  Bytes max_message{64 * 1024};
  std::uint32_t slots = 2;

  ShmGeometry geometry() const { return {ranks, lanes, max_message, slots}; }
};

/// The text of what a body threw, or empty.
inline std::string outcome(const std::function<void()>& body) {
  try {
    body();
  } catch (const TestFailure& failure) {
    return failure.text;
  }
  return {};
}

/// Runs body(rank) in one thread a rank and reports failures.
inline void run_threads(int ranks, const std::function<void(Rank)>& body) {
  std::vector<std::string> failures(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] { failures[static_cast<std::size_t>(r)] = outcome([&] { body(Rank(r)); }); });
  for (std::thread& thread : threads) thread.join();
  for (int r = 0; r < ranks; ++r) EXPECT_EQ(failures[static_cast<std::size_t>(r)], "") << "rank " << r;
}

using Segments = std::vector<std::shared_ptr<Segment>>;

inline Segments make_segments(const ShmGeometry& geometry) {
  Segments segments(static_cast<std::size_t>(geometry.ranks));
  for (std::shared_ptr<Segment>& segment : segments) {
    const Status status = Segment::create(geometry.segment_bytes(), &segment);
    require(status.ok(), status.text());
  }
  return segments;
}

inline std::unique_ptr<ShmEndpoint> open_endpoint(const ShmGeometry& geometry, Rank rank, Segments segments) {
  std::unique_ptr<ShmEndpoint> endpoint;
  const Status status = ShmEndpoint::open(geometry, rank, std::move(segments), &endpoint);
  require(status.ok(), status.text());
  return endpoint;
}

}  // namespace tutti::testing_traffic

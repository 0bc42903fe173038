// Covers schedule/simulator/event_queue.h.
// The queue of events against a plain one.
#include "schedule/simulator/event_queue.h"

#include <gtest/gtest.h>

#include <functional>
#include <queue>
#include <random>
#include <tuple>
#include <vector>

namespace tutti {
namespace {

TEST(EventQueue, KeepsTheOrderOfTimeAndOfMaking) {
  using Entry = std::tuple<Time, std::uint32_t>;  // the subject counts what was made
  EventQueue queue;
  for (const unsigned spread : {1u, 4u, 300u, 1'000'000u}) {
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> plain;
    std::mt19937 random(spread);
    Time now = 0;
    std::uint32_t made = 0;
    queue.clear();
    for (int i = 0; i < 50'000; ++i) {
      ASSERT_EQ(queue.empty(), plain.empty());
      if (plain.empty() || random() % 100 < 51) {
        const Time time = now + (random() % 3 == 0 ? random() % 5 : random() % spread);
        queue.push(time, Event::Kind::kDone, made);
        plain.emplace(time, made++);
        continue;
      }
      EXPECT_EQ(queue.next_time(), std::get<0>(plain.top()));
      const Event event = queue.pop();
      ASSERT_EQ(Entry(event.time, event.subject), plain.top());
      EXPECT_EQ(event.kind, Event::Kind::kDone);
      now = event.time;
      plain.pop();
    }
  }
}

}  // namespace
}  // namespace tutti

// The part of the conformance suite about sleeping: no wake-up is lost once a sleep has ended by itself, and before
// that none delays its sleeper by more than a moment.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>

#include "transport/world.h"

namespace tutti::testing_traffic {

template <class World>
class SleepConformance : public ::testing::Test {};
TYPED_TEST_SUITE_P(SleepConformance);

/// Far longer than any test takes: a sleep that lasts this long missed its wake-up.
inline constexpr std::chrono::seconds kForever = test::kPatience;

/// Waits as an executor does, but with sleeps that only a wake-up ends in time, by `only` or, if that is kNoRank, by
/// any peer: the first one ends by itself.
template <class E, class Attempt>
void sleep_until(E& endpoint, Attempt attempt, Rank only = kNoRank) {
  const auto begin = Clock::now();
  endpoint.announce_sleep(only);
  endpoint.sleep(std::chrono::nanoseconds(0));
  while (!attempt()) {
    endpoint.announce_sleep(only);
    if (attempt()) return endpoint.cancel_sleep();
    endpoint.sleep(kForever);
    require(Clock::now() - begin < kForever, "a wake-up was lost");
  }
}

inline void dawdle(std::mt19937& random) {
  switch (random() % 4) {
    case 0:
      return;
    case 1:
      for (unsigned i = random() % 400; i > 0; --i) static_cast<void>(random());
      return;
    case 2:
      ::sched_yield();
      return;
    default:
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
  }
}

TYPED_TEST_P(SleepConformance, ReceiversAreWokenByCommits) {
  constexpr std::uint64_t kMessages = kSanitized ? 500 : 3000;
  TypeParam::run(WorldSize{}, [&](auto& end) {
    const Route peer = unicast(Rank(1 - end.rank().value));
    std::mt19937 random(static_cast<unsigned>(end.rank().value));
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      if (end.rank().value == 0) {
        dawdle(random);
        send(end, peer, Bytes(8), i);
      } else {
        sleep_until(
            end, [&] { return try_receive(end, peer, Bytes(8), i); }, peer.peer);
      }
      if (i % 8 != 0) continue;
      if (end.rank().value == 1) dawdle(random);
      sleep_until(end, [&] {
        return end.rank().value == 1 ? try_send(end, peer, Bytes(8), i) : try_receive(end, peer, Bytes(8), i);
      });
    }
  });
}

/// The narrowest race: a commit that meets the announcement. Message A brings the receiver's word into the sender's
/// cache, so that the sender's look at it is fast while its store of message B is still on the way. Without a barrier
/// between announcement and second look, some runs on two idle cores lose wake-ups here; the other tests hardly ever
/// do.
TYPED_TEST_P(SleepConformance, CommitsThatMeetTheAnnouncementWakeToo) {
  constexpr std::uint64_t kRounds = kSanitized ? 1000 : 30'000;
  TypeParam::run(WorldSize{}, [&](auto& end) {
    const Route peer = unicast(Rank(1 - end.rank().value));
    std::mt19937 random(9);
    for (std::uint64_t i = 0; i < kRounds; ++i) {
      if (end.rank().value == 0) {
        send(end, peer, Bytes(8), i);
        for (unsigned pause = random() % 64; pause > 0; --pause) static_cast<void>(random());
        send(end, peer, Bytes(8), i + 1);
        receive(end, peer, Bytes(0), i);
      } else {
        receive(end, peer, Bytes(8), i);
        sleep_until(
            end, [&] { return try_receive(end, peer, Bytes(8), i + 1); }, peer.peer);
        send(end, peer, Bytes(0), i);
      }
    }
  });
}

TYPED_TEST_P(SleepConformance, SendersAreWokenByReleases) {
  constexpr std::uint64_t kMessages = kSanitized ? 300 : 2000;
  TypeParam::run(WorldSize{}, [&](auto& end) {
    const Route peer = unicast(Rank(1 - end.rank().value));
    std::mt19937 random(3);
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      if (end.rank().value == 0) {
        sleep_until(
            end, [&] { return try_send(end, peer, Bytes(5000), i); }, peer.peer);
      } else {
        dawdle(random);
        receive(end, peer, Bytes(5000), i);
      }
    }
  });
}

TYPED_TEST_P(SleepConformance, MulticastWakesAllReadersAndItsSender) {
  constexpr std::uint64_t kMessages = kSanitized ? 200 : 1000;
  TypeParam::run(WorldSize{.ranks = 4}, [&](auto& end) {
    std::mt19937 random(static_cast<unsigned>(end.rank().value));
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      if (i % 7 == 0) dawdle(random);
      if (end.rank().value == 0)
        sleep_until(end, [&] { return try_send(end, multicast_to_all(), Bytes(5000), i); });
      else
        sleep_until(
            end, [&] { return try_receive(end, multicast_from(Rank(0)), Bytes(5000), i); }, Rank(0));
    }
  });
}

TYPED_TEST_P(SleepConformance, WakeFromAnotherThreadEndsASleep) {
  TypeParam::run(WorldSize{.ranks = 1}, [&](auto& end) {
    std::mt19937 random(5);
    for (int i = 0; i < (kSanitized ? 50 : 300); ++i) {
      std::atomic<bool> alarm{false};
      std::thread other([&, seed = random()] {
        std::mt19937 own(static_cast<unsigned>(seed));
        dawdle(own);
        alarm.store(true, std::memory_order_release);  // pairs with the load below
        end.wake();
      });
      const std::string failure =
          outcome([&] { sleep_until(end, [&] { return alarm.load(std::memory_order_acquire); }); });
      other.join();
      require(failure.empty(), failure);
    }
  });
}

TYPED_TEST_P(SleepConformance, SleepEndsWithItsSlice) {
  TypeParam::run(WorldSize{.ranks = 1}, [&](auto& end) {
    for (const int microseconds : {0, 1, 3000}) {
      end.announce_sleep(kNoRank);
      end.sleep(std::chrono::microseconds(microseconds));  // nobody wakes it: a hang is the failure
    }
    end.announce_sleep(kNoRank);
    end.wake();
    const auto begin = Clock::now();
    end.sleep(kForever);
    require(Clock::now() - begin < kForever, "a wake-up between announcement and sleep was lost");
  });
}

REGISTER_TYPED_TEST_SUITE_P(SleepConformance, ReceiversAreWokenByCommits, CommitsThatMeetTheAnnouncementWakeToo,
                            SendersAreWokenByReleases, MulticastWakesAllReadersAndItsSender,
                            WakeFromAnotherThreadEndsASleep, SleepEndsWithItsSlice);

}  // namespace tutti::testing_traffic

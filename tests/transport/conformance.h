// The conformance suite of transports: what transport.h promises, held against every world (world.h). A file a world
// instantiates it:  INSTANTIATE_TYPED_TEST_SUITE_P(Inproc, Conformance, InprocWorld);
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "transport/world.h"

namespace tutti::testing_traffic {

template <class World>
class Conformance : public ::testing::Test {};
TYPED_TEST_SUITE_P(Conformance);

/// A world may give credits back some time after a release, and some at a time.
template <class World>
inline constexpr bool kLazyReleases = requires {
  World::kLazyReleases;
};

/// A credit that a release has given back.
template <class World, class E>
bool sent_after_release(E& end, Route route, Bytes bytes, std::uint64_t seed) {
  if constexpr (!kLazyReleases<World>) return try_send(end, route, bytes, seed);
  send(end, route, bytes, seed);
  return true;
}

inline std::vector<std::size_t> edge_sizes(Bytes max) {
  std::vector<std::size_t> sizes;
  for (const std::size_t edge : {std::size_t{0}, std::size_t{16}, std::size_t{48}, std::size_t{64}, std::size_t{4096},
                                 std::size_t{8192}, max.value})
    for (const int off : {-1, 0, 1}) {
      const std::size_t size = edge + static_cast<std::size_t>(off);
      if ((edge != 0 || off >= 0) && size <= max.value) sizes.push_back(size);
    }
  return sizes;
}

TYPED_TEST_P(Conformance, EverySizeInOrderManyTimesAround) {
  const WorldSize world;
  TypeParam::run(world, [&](auto& end) {
    const Route peer = unicast(Rank(1 - end.rank().value));
    std::vector<std::size_t> sizes = edge_sizes(world.max_message);
    std::mt19937 random(7);  // the same on both ranks: the schedule
    std::uint64_t seed = 0;
    for (int round = 0; round < (kSanitized ? 8 : 40); ++round) {
      std::shuffle(sizes.begin(), sizes.end(), random);
      for (const std::size_t size : sizes) {
        send(end, peer, Bytes(size), ++seed);
        receive(end, peer, Bytes(size), seed);
      }
    }
  });
}

TYPED_TEST_P(Conformance, CreditsRunOutAndEachReleaseGivesOneBack) {
  for (const std::size_t size : {std::size_t{8}, std::size_t{1000}, std::size_t{20000}}) {
    TypeParam::run(WorldSize{.lanes = 2}, [&](auto& end) {
      const Bytes bytes(size);
      const Bytes note(4);
      constexpr std::uint64_t kExtra = 50;
      const std::uint64_t batch = kLazyReleases<TypeParam> ? end.capabilities().credits : 1;
      if (end.rank().value == 0) {
        std::uint64_t sent = 0;
        while (try_send(end, unicast(Rank(1)), bytes, sent)) require(++sent < 100000, "credits never run out");
        require(sent >= 2, "fewer than two credits");
        require(sent >= end.capabilities().credits, "fewer credits than the endpoint says");
        for (std::uint64_t i = 0; i < kExtra; ++i) {
          require(end.send_claim(unicast(Rank(1)), bytes) == nullptr, "a claim without a credit");
          send(end, unicast(Rank(1), 1), note, i);     // "release some"
          receive(end, unicast(Rank(1), 1), note, i);  // "released"
          for (std::uint64_t k = 0; k < batch; ++k, ++sent)
            require(sent_after_release<TypeParam>(end, unicast(Rank(1)), bytes, sent), "no credit after a release");
        }
      } else {
        std::uint64_t received = 0;
        for (std::uint64_t i = 0; i < kExtra; ++i) {
          receive(end, unicast(Rank(0), 1), note, i);
          for (std::uint64_t k = 0; k < batch; ++k) receive(end, unicast(Rank(0)), bytes, received++);
          send(end, unicast(Rank(0), 1), note, i);
        }
      }
    });
  }
}

TYPED_TEST_P(Conformance, ClaimsAndPeeksHaveNoEffectUntilCommittedOrReleased) {
  for (const std::size_t size : {std::size_t{8}, std::size_t{3000}, std::size_t{9000}}) {
    TypeParam::run(WorldSize{.lanes = 2}, [&](auto& end) {
      const Bytes bytes(size);
      const Route route = unicast(Rank(1 - end.rank().value));
      if (end.rank().value == 0) {
        std::byte* first = end.send_claim(route, bytes);
        for (int i = 0; i < 40; ++i) require(end.send_claim(route, bytes) == first, "a repeated claim moved");
        fill(first, bytes, 1);
        require(end.send_claim(route, bytes) == first, "a repeated claim moved");
        end.send_commit(route, bytes, mix64(1));
        send(end, route, bytes, 2);
        receive(end, unicast(Rank(1), 1), Bytes(1), 0);
      } else {
        poll_until("the first message", [&] { return try_look(end, route, bytes, 1); });
        const std::byte* data = end.recv_peek(route, bytes, mix64(1)).data;
        require(aligned(data, bytes), "a message is not aligned");
        for (int i = 0; i < 40; ++i) {
          require(try_look(end, route, bytes, 1), "a repeated peek lost the message");
          require(end.recv_peek(route, bytes, mix64(1)).data == data, "a repeated peek moved");
        }
        receive(end, route, bytes, 1);
        receive(end, route, bytes, 2);
        require(end.recv_peek(route, bytes, mix64(3)).state == PeekState::kAgain, "a message that nobody sent");
        send(end, unicast(Rank(0), 1), Bytes(1), 0);
      }
    });
  }
}

TYPED_TEST_P(Conformance, MulticastReachesReadersOfDifferentSpeed) {
  constexpr std::uint64_t kMessages = kSanitized ? 300 : 2000;
  const auto size_of = [](std::uint64_t i) { return Bytes(i % 3 == 0 ? 8 : i % 3 == 1 ? 700 : 5000); };
  TypeParam::run(WorldSize{.ranks = 4}, [&](auto& end) {
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      if (end.rank().value == 0) {
        send(end, multicast_to_all(), size_of(i), i);
        continue;
      }
      for (int pause = 0; pause < end.rank().value - 1 && i % 16 == 0; ++pause) ::sched_yield();
      receive(end, multicast_from(Rank(0)), size_of(i), i);
    }
  });
}

TYPED_TEST_P(Conformance, MulticastWaitsForItsSlowestReader) {
  for (const std::size_t size : {std::size_t{48}, std::size_t{30000}}) {
    TypeParam::run(WorldSize{.ranks = 3}, [&](auto& end) {
      const Bytes bytes(size);
      const Bytes note(1);
      const std::uint64_t batch = kLazyReleases<TypeParam> ? end.capabilities().credits : 1;
      if (end.rank().value == 0) {
        std::uint64_t sent = 0;
        while (try_send(end, multicast_to_all(), bytes, sent)) require(++sent < 100000, "credits never run out");
        require(sent >= 2, "fewer than two credits");
        send(end, unicast(Rank(1)), note, 0);
        receive(end, unicast(Rank(1)), note, 0);  // rank 1 released, rank 2 did not
        require(end.send_claim(multicast_to_all(), bytes) == nullptr, "a claim overtook the slowest reader");
        send(end, unicast(Rank(2)), note, 0);
        receive(end, unicast(Rank(2)), note, 0);
        for (std::uint64_t k = 0; k < batch; ++k)
          require(sent_after_release<TypeParam>(end, multicast_to_all(), bytes, sent + k),
                  "no credit after all readers released");
        require(end.send_claim(multicast_to_all(), bytes) == nullptr, "a claim without a credit");
      } else {
        receive(end, unicast(Rank(0)), note, 0);
        for (std::uint64_t k = 0; k < batch; ++k) receive(end, multicast_from(Rank(0)), bytes, k);
        send(end, unicast(Rank(0)), note, 0);
      }
    });
  }
}

TYPED_TEST_P(Conformance, MulticastWithoutReadersNeverWaits) {
  TypeParam::run(WorldSize{.ranks = 1}, [&](auto& end) {
    for (std::uint64_t i = 0; i < 100; ++i) {
      require(try_send(end, multicast_to_all(), Bytes(8), i), "no credit, but no reader either");
      require(try_send(end, multicast_to_all(), Bytes(9000), i), "no credit, but no reader either");
    }
  });
}

TYPED_TEST_P(Conformance, LanesDoNotWaitForEachOther) {
  TypeParam::run(WorldSize{.lanes = 3}, [&](auto& end) {
    const Route peer0 = unicast(Rank(1 - end.rank().value), 0);
    if (end.rank().value == 0) {
      std::uint64_t sent = 0;
      while (try_send(end, peer0, Bytes(100), sent)) ++sent;  // lane 0 is full now
      for (std::uint64_t i = 0; i < 100; ++i) {
        send(end, unicast(Rank(1), 1), Bytes(24), 1000 + i);
        send(end, unicast(Rank(1), 2), Bytes(6000), 2000 + i);
      }
      receive(end, peer0, Bytes(0), 1);
    } else {
      for (std::uint64_t i = 0; i < 100; ++i) {
        receive(end, unicast(Rank(0), 1), Bytes(24), 1000 + i);
        receive(end, unicast(Rank(0), 2), Bytes(6000), 2000 + i);
      }
      for (std::uint64_t i = 0; i < end.capabilities().credits; ++i) receive(end, peer0, Bytes(100), i);
      send(end, peer0, Bytes(0), 1);
    }
  });
}

TYPED_TEST_P(Conformance, AnotherCallIsAMismatch) {
  TypeParam::run(WorldSize{}, [&](auto& end) {
    const Route route = unicast(Rank(1 - end.rank().value));
    if (end.rank().value == 0) {
      for (std::uint64_t i = 0; i < 100; ++i)
        for (const std::size_t size : {std::size_t{16}, std::size_t{200}, std::size_t{9000}})
          send(end, route, Bytes(size), i);
      return;
    }
    for (std::uint64_t i = 0; i < 100; ++i) {
      for (const std::size_t size : {std::size_t{16}, std::size_t{200}, std::size_t{9000}}) {
        poll_until("a message", [&] { return try_look(end, route, Bytes(size), i); });
        require(end.recv_peek(route, Bytes(size), mix64(i + 1)).state == PeekState::kMismatch,
                "another fingerprint passed");
        require(end.recv_peek(route, Bytes(size - 8), mix64(i)).state == PeekState::kMismatch, "another size passed");
        receive(end, route, Bytes(size), i);  // a mismatch changes nothing
      }
    }
  });
}

TYPED_TEST_P(Conformance, SmallMessagesBothWays) {
  constexpr std::uint64_t kMessages = TypeParam::kSmallMessages / (kSanitized ? 50 : 1);
  TypeParam::run(WorldSize{}, [&](auto& end) {
    const Route peer = unicast(Rank(1 - end.rank().value));
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    for (std::uint64_t goal = 1000; goal <= kMessages; goal += 1000)
      poll_until("small messages", [&] {
        if (sent < goal && try_send(end, peer, Bytes(8), sent)) ++sent;
        if (received < goal && try_receive(end, peer, Bytes(8), received)) ++received;
        return sent == goal && received == goal;
      });
    require(received == kMessages, "the number of messages is not a multiple of 1000");
  });
}

TYPED_TEST_P(Conformance, EveryRankToEveryOther) {
  constexpr int kRanks = 5;
  constexpr std::uint64_t kRounds = kSanitized ? 30 : 200;
  TypeParam::run(WorldSize{.ranks = kRanks, .lanes = 2, .slots = 4}, [&](auto& end) {
    std::mt19937 random(11);
    for (std::uint64_t i = 0; i < kRounds; ++i) {
      const Bytes bytes(random() % 3 == 0 ? random() % 40000 : random() % 80);
      const auto lane = static_cast<std::uint16_t>(random() % 2);
      const auto tag = [&](Rank from, Rank to) {
        return i * 100 + static_cast<std::uint64_t>(from.value * 10 + to.value);
      };
      send(end, multicast_to_all(lane), bytes, tag(end.rank(), Rank(9)));
      for (Rank peer{0}; peer.value < kRanks; ++peer)
        if (peer != end.rank()) send(end, unicast(peer, lane), bytes, tag(end.rank(), peer));
      for (Rank peer{0}; peer.value < kRanks; ++peer) {
        if (peer == end.rank()) continue;
        receive(end, unicast(peer, lane), bytes, tag(peer, end.rank()));
        receive(end, multicast_from(peer, lane), bytes, tag(peer, Rank(9)));
      }
    }
  });
}

template <class World>
class BoardConformance : public ::testing::Test {};
TYPED_TEST_SUITE_P(BoardConformance);

TYPED_TEST_P(BoardConformance, BoardsAreSeenByPeers) {
  TypeParam::run(WorldSize{.ranks = 3}, [&](auto& end) {
    const auto mine = static_cast<std::uint64_t>(end.rank().value) + 1;
    end.board().begin(Call{.sequence = mine, .count = mine * 10});
    send(end, multicast_to_all(), Bytes(0), mine);
    for (Rank peer{0}; peer.value < 3; ++peer) {
      if (peer == end.rank()) continue;
      const auto theirs = static_cast<std::uint64_t>(peer.value) + 1;
      receive(end, multicast_from(peer), Bytes(0), theirs);
      const CallBoard* board = end.board(peer);
      require(board != nullptr && board->find(theirs).known, "a peer's call is not on its board");
      require(board->find(theirs).call.count == theirs * 10, "a peer's call reads differently");
      require(board->state().sequence == theirs && !board->find(99).known, "a board shows another call");
    }
  });
}

REGISTER_TYPED_TEST_SUITE_P(Conformance, EverySizeInOrderManyTimesAround, CreditsRunOutAndEachReleaseGivesOneBack,
                            ClaimsAndPeeksHaveNoEffectUntilCommittedOrReleased, MulticastReachesReadersOfDifferentSpeed,
                            MulticastWaitsForItsSlowestReader, MulticastWithoutReadersNeverWaits,
                            LanesDoNotWaitForEachOther, AnotherCallIsAMismatch, SmallMessagesBothWays,
                            EveryRankToEveryOther);
REGISTER_TYPED_TEST_SUITE_P(BoardConformance, BoardsAreSeenByPeers);

}  // namespace tutti::testing_traffic

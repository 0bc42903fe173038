// Covers transport/shm/direct_read.cc.
// Messages sent by reference: readers fetch them from the writer's own memory, where the kernel lets them.
#include "transport/shm/direct_read.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/emulated.h"
#include "transport/segment_exchange.h"
#include "transport/shm/shm.h"

namespace tutti::testing_traffic {
namespace {

constexpr Bytes kLargeDirect{50'000};
constexpr ShmGeometry kGeometry{3, 1, Bytes{64 * 1024}, 2};

/// Rank 0 sends to both others, first a copy, in return for which they tell that they can read, then by reference.
void exchange(ShmEndpoint& end) {
  const Bytes note(4);
  if (end.rank().value != 0) {
    receive(end, multicast_from(Rank(0)), kLargeDirect, 1);
    send(end, unicast(Rank(0)), note, 2);
    receive(end, unicast(Rank(0)), kLargeDirect, 3);
    for (std::uint64_t seed = 10; seed < 30; ++seed) receive(end, multicast_from(Rank(0)), kLargeDirect, seed);
    return;
  }
  std::vector<std::byte> data(kLargeDirect.value);
  fill(data.data(), kLargeDirect, 1);
  require(end.send_reference(multicast_to_all(), data.data(), kLargeDirect, mix64(1)) == ReferenceState::kNotOffered,
          "nobody has shown that it can read");
  require(end.send_reference(multicast_to_all(), data.data(), Bytes{64}, mix64(1)) == ReferenceState::kNotOffered,
          "small messages are copied");
  send(end, multicast_to_all(), kLargeDirect, 1);
  for (int peer = 1; peer < 3; ++peer) receive(end, unicast(Rank(peer)), note, 2);
  Rank late = kNoRank;
  for (int peer = 1; peer < 3; ++peer) {
    fill(data.data(), kLargeDirect, 3);
    require(end.send_reference(unicast(Rank(peer)), data.data(), kLargeDirect, mix64(3)) == ReferenceState::kSent,
            "the reader can read, it is this machine's own process");
    poll_until("the reader to be done", [&] { return end.references_released(&late); });
  }
  for (std::uint64_t seed = 10; seed < 30; ++seed) {
    fill(data.data(), kLargeDirect, seed);
    poll_until("a credit", [&] {
      return end.send_reference(multicast_to_all(), data.data(), kLargeDirect, mix64(seed)) == ReferenceState::kSent;
    });
    poll_until("all readers to be done", [&] { return end.references_released(&late); });
  }
}

#define SKIP_WITHOUT_DIRECT_READS() \
  if (test::is_emulated()) GTEST_SKIP() << "this system does not offer process_vm_readv"

TEST(DirectRead, BetweenThreads) {
  SKIP_WITHOUT_DIRECT_READS();
  const Segments segments = make_segments(kGeometry);
  run_threads(3, [&](Rank rank) { exchange(*open_endpoint(kGeometry, rank, segments)); });
}

TEST(DirectRead, BetweenProcesses) {
  SKIP_WITHOUT_DIRECT_READS();
  run_processes(3, [](Rank rank, UnixSocket& parent) {
    exchange(*open_endpoint(kGeometry, rank, exchange_segments(kGeometry, rank, parent)));
    wait_ready(parent, POLLIN);  // stays until the parent lets go: its memory is read until then
  });
}

// The process number means another process here, as it may in a container: the token is not there.
TEST(DirectRead, AnOfferThatIsNotWhatItSaysIsNotTaken) {
  SKIP_WITHOUT_DIRECT_READS();
  std::vector<std::unique_ptr<DirectPage>> pages;
  std::vector<DirectPage*> pointers;
  for (int i = 0; i < 2; ++i) pointers.push_back(pages.emplace_back(new DirectPage{}).get());
  DirectReads writer(Rank{0}, pointers);
  DirectReads reader(Rank{1}, pointers);
  writer.offer();
  pages[0]->token.fetch_add(1);
  reader.try_offer_once(Rank{0});
  EXPECT_FALSE(writer.is_read_by(Rank{1}));

  DirectReads honest(Rank{1}, pointers);
  pages[0]->token.fetch_sub(1);
  honest.try_offer_once(Rank{0});
  EXPECT_TRUE(writer.is_read_by(Rank{1}));
  char byte = 0;
  EXPECT_FALSE(honest.read(Rank{0}, 1, &byte, 1)) << "no memory there";
  const char there = 7;
  const auto address = reinterpret_cast<std::uintptr_t>(&there);
  EXPECT_TRUE(honest.read(Rank{0}, address, &byte, 1));
  EXPECT_EQ(byte, 7);
  writer.revoke();
  EXPECT_FALSE(honest.read(Rank{0}, address, &byte, 1)) << "a failed call has given its buffers back";
}

/// Two ranks' pages, and an offer in rank 0's that says it is of the process `pid`.
struct FalseOffer {
  explicit FalseOffer(pid_t pid) {
    for (DirectPage*& pointer : pointers) pointer = pages.emplace_back(new DirectPage{}).get();
    pages[0]->process = pid;
    pages[0]->token = secret;
    pages[0]->token_address = reinterpret_cast<std::uintptr_t>(&secret);
    pages[0]->offered = 1;
  }
  std::uint64_t secret = 0x70'72'69'76'61'74'65;  // of the reader's process
  std::vector<std::unique_ptr<DirectPage>> pages;
  std::vector<DirectPage*> pointers{nullptr, nullptr};
};

// A rank of another process that names this one: this rank would send its own private memory on.
TEST(DirectRead, AnOfferOfTheReadersOwnMemoryIsNotTaken) {
  SKIP_WITHOUT_DIRECT_READS();
  FalseOffer offer(::getpid());
  DirectReads reader(Rank{1}, offer.pointers);
  reader.try_offer_once(Rank{0});
  EXPECT_EQ(offer.pages[1]->reads[0].load(), 0u);
  std::uint64_t got = 0;
  EXPECT_FALSE(reader.read(Rank{0}, reinterpret_cast<std::uintptr_t>(&offer.secret), &got, sizeof got));
  EXPECT_EQ(got, 0u);
}

// What was found true once is what is used: a page that changes later leads nowhere else.
TEST(DirectRead, AnOfferThatChangesLaterChangesNothing) {
  SKIP_WITHOUT_DIRECT_READS();
  std::vector<std::unique_ptr<DirectPage>> pages;
  std::vector<DirectPage*> pointers;
  for (int i = 0; i < 2; ++i) pointers.push_back(pages.emplace_back(new DirectPage{}).get());
  const char there = 7;
  const auto address = reinterpret_cast<std::uintptr_t>(&there);
  char byte = 0;
  DirectReads reader(Rank{1}, pointers);
  DirectReads writer(Rank{0}, pointers);
  writer.offer();
  const std::uint64_t token = pages[0]->token;
  const std::uint64_t token_address = pages[0]->token_address;
  reader.try_offer_once(Rank{0});
  pages[0]->process = 1;
  pages[0]->token = 0;
  pages[0]->token_address = 1;
  EXPECT_TRUE(reader.read(Rank{0}, address, &byte, 1));
  EXPECT_EQ(byte, 7);
  // As in a process that got the number of one that has ended: the token is not where it was.
  auto* const place = reinterpret_cast<std::uint64_t*>(token_address);
  *place = token + 1;
  EXPECT_FALSE(reader.read(Rank{0}, address, &byte, 1));
  *place = token;
  EXPECT_TRUE(reader.read(Rank{0}, address, &byte, 1));
}

}  // namespace
}  // namespace tutti::testing_traffic

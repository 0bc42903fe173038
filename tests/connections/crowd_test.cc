// Many connections at a hub's door: who is let in, who is dropped, and who passes all the same.
// Covers net/acceptor.cc, net/connection.cc, comm/membership/hub.cc.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "comm/join/join.h"
#include "comm/membership/hub.h"
#include "comm/messages/unique_id.h"
#include "support/await.h"
#include "support/joining_processes.h"
#include "support/knocker.h"
#include "support/served.h"

namespace tutti {
namespace {

using std::chrono::milliseconds;
using test::is_closed_by_the_other_end;
using test::is_closed_now;
using test::knock;
using test::Served;

TEST(HubCrowd, ACrowdOfStrangersDoesNotKeepRanksOut) {
  IdBytes bytes;
  ASSERT_TRUE(make_unique_id(Settings{}, &bytes).ok());
  UniqueId id;
  ASSERT_TRUE(UniqueId::decode(bytes, &id).ok());
  std::vector<Descriptor> crowd;
  std::shared_ptr<Hub> hub;
  ASSERT_TRUE(Hub::acquire(Settings{}, &hub).ok());
  for (std::size_t i = 0; i < hub->pending().most() + 50; ++i) crowd.push_back(knock(id.port));
  JoinResult joined;
  const Status status = join(test::request_for(0, 1, bytes), &joined);
  EXPECT_TRUE(status.ok()) << status.text();
  test::await([&] { return std::count_if(crowd.begin(), crowd.end(), is_closed_now) >= 50; }, "the ends of some");
  joined.membership->say_goodbye(0);
}

/// Says what for it comes, as whoever has seen the id's nonce can, and goes no further.
Descriptor begin_handshake(const UniqueId& id, unsigned from) {
  Handshake client = Handshake::client(Role::kJoin, id.nonce, id.secret);
  std::vector<std::byte> hello;
  EXPECT_TRUE(client.start(&hello).ok());
  Descriptor socket = knock(id.port, from);
  EXPECT_EQ(::send(socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL), static_cast<ssize_t>(hello.size()));
  return socket;
}

bool is_challenged(const Descriptor& socket) {
  std::array<std::byte, Handshake::kChallengeSize> challenge;
  return test::restarted([&] { return ::recv(socket.get(), challenge.data(), challenge.size(), MSG_WAITALL); }) ==
         static_cast<ssize_t>(challenge.size());
}

TEST(HubCrowd, ACrowdFromOneAddressPushesItselfOut) {
  const Served served;
  std::vector<Descriptor> few;
  for (unsigned from = 2; from < 12; ++from) {
    few.push_back(begin_handshake(served.id(), from));
    EXPECT_TRUE(is_challenged(few.back()));
  }
  std::vector<Descriptor> crowd;
  const std::ptrdiff_t many = served.most_pending() + 100;
  for (std::ptrdiff_t i = 0; i < many; ++i) {
    crowd.push_back(begin_handshake(served.id(), 1));
    if (i % 16 == 0) (void)is_challenged(crowd.back());  // it keeps pace
  }
  test::await([&] { return std::count_if(crowd.begin(), crowd.end(), is_closed_now) >= 100; }, "the ends of some");
  EXPECT_EQ(std::count_if(few.begin(), few.end(), is_closed_now), 0) << "of those from other addresses";
}

TEST(HubCrowd, WhoSaysNothingIsDroppedBeforeWhoDoes) {
  const Served served;
  std::vector<Descriptor> talkers;
  for (int i = 0; i < 16; ++i) {
    talkers.push_back(begin_handshake(served.id(), 1));
    EXPECT_TRUE(is_challenged(talkers.back()));
  }
  std::vector<Descriptor> silent;
  for (std::ptrdiff_t i = 0; i < served.most_pending() + 100; ++i) silent.push_back(knock(served.id().port));
  test::await([&] { return std::count_if(silent.begin(), silent.end(), is_closed_now) >= 100; }, "the ends of some");
  EXPECT_EQ(std::count_if(talkers.begin(), talkers.end(), is_closed_now), 0);
}

/// Connects over and over, with as many connections at a time as the hub may keep, and twice that.
class Flood {
 public:
  explicit Flood(const Served& served)
      : port_(served.id().port),
        most_(2 * static_cast<std::size_t>(served.most_pending())),
        thread_([this] { run(); }) {
    test::await([this] { return made_.load() >= most_; }, "the flood");
  }
  ~Flood() {
    stop_ = true;
    thread_.join();
  }
  Flood(const Flood&) = delete;
  Flood& operator=(const Flood&) = delete;
  std::size_t made() const { return made_; }
  /// It makes at most one more connection until resume().
  void pause() { paused_ = true; }
  void resume() { paused_ = false; }

 private:
  void run() {
    std::vector<Descriptor> connections(most_);
    while (!stop_) {
      if (paused_) {
        std::this_thread::yield();
        continue;
      }
      connections[made_ % most_] = knock(port_);
      ++made_;
    }
  }

  const std::uint16_t port_;
  const std::size_t most_;
  std::atomic<std::size_t> made_{0};
  std::atomic<bool> stop_{false};
  std::atomic<bool> paused_{false};
  std::thread thread_;
};

// A rank's first message follows its connection at once. This thread may lose its core between the two, and who has
// said nothing among hundreds of others may be dropped: so the flood pauses there. The second message, the proof, takes
// the way there and back, in which the flood makes hundreds of connections.
TEST(HubCrowd, AFloodDoesNotKeepOutWhoIsFarAway) {
  const Served served;
  Flood flood(served);
  for (const int delay : {0, 10, 30, 80}) {
    for (unsigned from = 2; from < 7; ++from) {
      flood.pause();
      const std::size_t before = flood.made();
      test::Knocker rank(served.id().port, from);
      const auto far_away = [&] {
        flood.resume();
        std::this_thread::sleep_for(milliseconds(delay));
      };
      EXPECT_TRUE(rank.pass(Role::kJoin, served.id().nonce, served.id().secret, far_away))
          << delay << " ms away, after " << flood.made() - before << " connections of the flood";
      EXPECT_TRUE(rank.hears_nothing_for(milliseconds(20))) << delay << " ms away, it was turned away";
    }
  }
}

TEST(HubCrowd, AJoinThatCannotBeReadIsAnswered) {
  const Served served;
  test::Knocker other_version(served.id().port);
  ASSERT_TRUE(other_version.pass(Role::kJoin, served.id().nonce, served.id().secret));
  other_version.say(MessageType::kJoin, bytes_of("a join of another version"));
  MessageType type{};
  FailureMessage failure;
  ASSERT_TRUE(decode(other_version.hear(&type), &failure).ok());
  EXPECT_EQ(type, MessageType::kFailure);
  EXPECT_EQ(failure.code, Code::kMismatch);
  EXPECT_NE(failure.text.find("another version"), std::string::npos) << failure.text;
  EXPECT_TRUE(other_version.is_closed());
}

TEST(HubCrowd, WhoHasProvedItselfAndSaysNothingIsClosed) {
  const Served served;
  test::Knocker silent(served.id().port);
  ASSERT_TRUE(silent.pass(Role::kJoin, served.id().nonce, served.id().secret));
  EXPECT_TRUE(silent.is_closed()) << "within the 100 s that it waits";
}

// All ranks are here and no id is served any more: nobody is expected from elsewhere.
TEST(HubCrowd, NobodyIsLetInWhereNobodyIsExpected) {
  ASSERT_TRUE(wait_for_no_hub(test::kPatience));
  const Served served;
  const Descriptor early = begin_handshake(served.id(), 2);
  EXPECT_TRUE(is_challenged(early));
  JoinResult joined;
  ASSERT_TRUE(join(test::request_for(0, 1, served.bytes()), &joined).ok());
  EXPECT_TRUE(test::comes_true([&] {  // the join's own connection ends a moment later
    const Descriptor late = knock(served.id().port, 2);
    std::this_thread::sleep_for(milliseconds(20));
    return is_closed_now(late);
  }));
  joined.membership->say_goodbye(0);
}

TEST(HubCrowd, OtherInterfacesThanTheChosenOnesAreClosed) {
  ASSERT_TRUE(wait_for_no_hub(test::kPatience));
  Settings settings;
  settings.socket_interface = "=lo";
  const Served served(settings);
  EXPECT_TRUE(is_challenged(begin_handshake(served.id(), 1)));
  EXPECT_TRUE(is_closed_by_the_other_end(knock(served.id().port, 1, 2))) << "127.0.0.2 is not an address of the id";
}

}  // namespace
}  // namespace tutti

// Covers net/dialer.cc, net/socket.cc.
// What the attempts to reach a hub say of it: gone, silent, or perhaps there another time.
#include "net/dialer.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "comm/membership/hub.h"
#include "support/await.h"
#include "support/loopback.h"
#include "support/ports.h"

namespace tutti {
namespace {

using test::free_port;
using test::listen_at;
using test::loopback;

/// No system sends anything to a broadcast address over TCP: there is no way to it.
IpAddress nowhere() {
  IpAddress address;
  address.bytes.fill(std::byte{255});
  address.bytes[0] = std::byte{127};
  return address;
}

DialTarget target_at(const IpAddress& address, std::uint16_t port, bool was_connected = false) {
  DialTarget target;
  target.address = address;
  target.port = port;
  target.was_connected = was_connected;
  return target;
}

struct Verdict {
  bool refused = false;
  bool unanswered = false;
  bool silent = false;
  std::string why;
};

class DialerTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(Hub::acquire(Settings{}, &hub_).ok()); }
  void TearDown() override {
    const auto end = [this] {
      dialer_->cancel();
      dialer_.reset();
    };
    EXPECT_TRUE(hub_->loop().call(end, test::kPatience));
  }
  void start(const std::vector<DialTarget>& targets) {
    const auto done = [this](const Status& why, const std::shared_ptr<Connection>&) {
      ended_.set_value(Verdict{dialer_->refused(), dialer_->unanswered(), dialer_->accepted_in_silence(), why.text()});
    };
    hub_->loop().call(
        [&] {
          dialer_ = std::make_shared<Dialer>(hub_->loop(), targets, Role::kControl, KeyId{}, Key{}, done);
          dialer_->start();
        },
        test::kPatience);
  }
  Verdict verdict() {
    std::future<Verdict> end = ended_.get_future();
    const bool came = end.wait_for(test::kPatience) == std::future_status::ready;
    EXPECT_TRUE(came) << "the attempts do not end";
    return came ? end.get() : Verdict{};
  }
  bool is_silent() {
    bool silent = false;
    hub_->loop().call([&] { silent = dialer_->accepted_in_silence(); }, test::kPatience);
    return silent;
  }

  std::shared_ptr<Hub> hub_;

 private:
  std::shared_ptr<Dialer> dialer_;  // the loop's
  std::promise<Verdict> ended_;
};

TEST_F(DialerTest, NobodyAtTheAddressThatCountsEndsAllAttempts) {
  const std::uint16_t port = free_port();
  const Descriptor busy = listen_at(port);  // takes connections and says nothing
  start({target_at(loopback(), free_port(), true), target_at(loopback(), port), target_at(nowhere(), port)});
  const Verdict end = verdict();
  EXPECT_TRUE(end.refused);
  EXPECT_EQ(end.why.find("did not answer"), std::string::npos) << "it waited for the others: " << end.why;
}

// Its listening socket is the last that a process closes.
TEST_F(DialerTest, WhoEndsBehindAConnectionThatItTookIsGone) {
  const std::uint16_t port = free_port(), other = free_port();
  Descriptor ending = listen_at(port);
  const Descriptor busy = listen_at(other);
  start({target_at(loopback(), port, true), target_at(loopback(), other)});
  pollfd wanted{ending.get(), POLLIN, 0};
  ASSERT_EQ(test::restarted([&] { return ::poll(&wanted, 1, 100'000); }), 1) << "nobody dials";
  Descriptor taken(::accept(ending.get(), nullptr, nullptr));
  ASSERT_GE(taken.get(), 0);
  const linger reset{1, 0};
  ASSERT_EQ(::setsockopt(taken.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
  taken = Descriptor();
  ending = Descriptor();
  const Verdict end = verdict();
  EXPECT_TRUE(end.refused) << end.why;
  EXPECT_EQ(end.why.find("did not answer"), std::string::npos) << "it waited for the other: " << end.why;
}

TEST_F(DialerTest, NobodyAtOneAddressOfManyIsNoVerdict) {
  start({target_at(loopback(), free_port()), target_at(nowhere(), 7)});
  const Verdict end = verdict();
  EXPECT_FALSE(end.refused) << end.why;
  EXPECT_TRUE(end.unanswered) << end.why;
  EXPECT_FALSE(end.silent);
}

TEST_F(DialerTest, NobodyAtAnyAddressIsAVerdict) {
  start({target_at(loopback(1), free_port()), target_at(loopback(2), free_port())});
  const Verdict end = verdict();
  EXPECT_TRUE(end.refused) << end.why;
  EXPECT_FALSE(end.unanswered) << end.why;
}

TEST_F(DialerTest, WhoTakesAConnectionAndSaysNothingIsSilent) {
  const std::uint16_t port = free_port();
  const Descriptor busy = listen_at(port);
  start({target_at(loopback(), free_port()), target_at(loopback(), port)});
  EXPECT_TRUE(test::comes_true([&] { return is_silent(); }));
}

TEST_F(DialerTest, AStrangerAtTheAddressIsAnAnswer) {
  start({target_at(loopback(), hub_->port())});  // this process's own hub, which serves no such thing
  const Verdict end = verdict();
  EXPECT_FALSE(end.refused) << end.why;
  EXPECT_FALSE(end.unanswered) << end.why;
  EXPECT_FALSE(end.silent);
}

}  // namespace
}  // namespace tutti

// Covers net/handshake.cc.
#include "net/handshake.h"

#include <gtest/gtest.h>

#include <random>

namespace tutti {
namespace {

constexpr KeyId kId{std::byte{1}, std::byte{2}};

Key secret_of(int seed) {
  Key key{};
  key[0] = static_cast<std::byte>(seed);
  return key;
}

KeyLookup serves(const Key& secret) {
  return [secret](Role, const KeyId& id, Key* out) { return id == kId ? (*out = secret, true) : false; };
}

using ByteList = std::vector<std::byte>;

struct Transcript {
  ByteList hello;
  ByteList challenge;
  ByteList proof;
  Status client;
  Status server;
};

Transcript run(Handshake& client, Handshake& server) {
  Transcript transcript;
  transcript.client = client.start(&transcript.hello);
  transcript.server = server.consume(transcript.hello, &transcript.challenge);
  if (!transcript.server.ok()) return transcript;
  transcript.client = client.consume(transcript.challenge, &transcript.proof);
  if (!transcript.client.ok()) return transcript;
  ByteList none;
  transcript.server = server.consume(transcript.proof, &none);
  return transcript;
}

TEST(Handshake, TheSameSecretPassesAndGivesTheSameKeys) {
  Handshake client = Handshake::client(Role::kControl, kId, secret_of(1));
  Handshake server = Handshake::server(serves(secret_of(1)));
  const Transcript transcript = run(client, server);
  ASSERT_TRUE(transcript.client.ok() && transcript.server.ok());
  EXPECT_TRUE(client.done() && server.done());
  EXPECT_EQ(server.role(), Role::kControl);
  EXPECT_EQ(server.key_id(), kId);
  EXPECT_EQ(client.send_key(), server.receive_key());
  EXPECT_EQ(client.receive_key(), server.send_key());
  EXPECT_NE(client.send_key(), client.receive_key());
  EXPECT_EQ(transcript.hello.size(), Handshake::kHelloSize);
  EXPECT_EQ(transcript.challenge.size(), Handshake::kChallengeSize);
  EXPECT_EQ(transcript.proof.size(), Handshake::kProofSize);
}

TEST(Handshake, AnotherSecretIsNoticedByTheClientFirst) {
  Handshake client = Handshake::client(Role::kJoin, kId, secret_of(1));
  Handshake server = Handshake::server(serves(secret_of(2)));
  const Transcript transcript = run(client, server);
  EXPECT_FALSE(transcript.client.ok());
  EXPECT_TRUE(transcript.proof.empty());  // nothing that could be used elsewhere is given away
  EXPECT_FALSE(server.done());
}

TEST(Handshake, AnUnknownIdIsRefused) {
  Handshake client = Handshake::client(Role::kJoin, KeyId{}, secret_of(1));
  Handshake server = Handshake::server(serves(secret_of(1)));
  EXPECT_FALSE(run(client, server).server.ok());
}

TEST(Handshake, AReplayedProofFails) {
  Handshake client = Handshake::client(Role::kJoin, kId, secret_of(1));
  Handshake first = Handshake::server(serves(secret_of(1)));
  const Transcript recorded = run(client, first);
  ASSERT_TRUE(first.done());
  Handshake second = Handshake::server(serves(secret_of(1)));
  ByteList challenge;
  ASSERT_TRUE(second.consume(recorded.hello, &challenge).ok());
  EXPECT_NE(challenge, recorded.challenge);
  ByteList none;
  EXPECT_FALSE(second.consume(recorded.proof, &none).ok());
}

TEST(Handshake, AReplayedChallengeFails) {
  Handshake client = Handshake::client(Role::kJoin, kId, secret_of(1));
  Handshake server = Handshake::server(serves(secret_of(1)));
  const Transcript recorded = run(client, server);
  Handshake another = Handshake::client(Role::kJoin, kId, secret_of(1));
  ByteList hello;
  ByteList proof;
  ASSERT_TRUE(another.start(&hello).ok());
  EXPECT_FALSE(another.consume(recorded.challenge, &proof).ok());
  EXPECT_TRUE(proof.empty());
}

TEST(Handshake, AReflectedMacFails) {
  // The attacker has no secret and sends the server's own MAC back as the proof.
  Handshake client = Handshake::client(Role::kJoin, kId, secret_of(1));
  Handshake server = Handshake::server(serves(secret_of(1)));
  ByteList hello;
  ByteList challenge;
  ASSERT_TRUE(client.start(&hello).ok());
  ASSERT_TRUE(server.consume(hello, &challenge).ok());
  const ByteList reflected(challenge.begin() + 32, challenge.end());
  ByteList none;
  EXPECT_FALSE(server.consume(reflected, &none).ok());
}

TEST(Handshake, AnotherRoleThanTheSignedOneFails) {
  Handshake client = Handshake::client(Role::kJoin, kId, secret_of(1));
  Handshake server = Handshake::server(serves(secret_of(1)));
  ByteList hello;
  ByteList challenge;
  ByteList proof;
  ASSERT_TRUE(client.start(&hello).ok());
  hello[8] = static_cast<std::byte>(Role::kControl);  // changed on the way
  ASSERT_TRUE(server.consume(hello, &challenge).ok());
  EXPECT_FALSE(client.consume(challenge, &proof).ok());
}

TEST(Handshake, EveryChangedBitIsNoticed) {
  for (std::size_t bit = 0; bit < Handshake::kChallengeSize * 8; ++bit) {
    Handshake client = Handshake::client(Role::kJoin, kId, secret_of(1));
    Handshake server = Handshake::server(serves(secret_of(1)));
    ByteList hello;
    ByteList challenge;
    ByteList proof;
    ASSERT_TRUE(client.start(&hello).ok());
    ASSERT_TRUE(server.consume(hello, &challenge).ok());
    challenge[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    EXPECT_FALSE(client.consume(challenge, &proof).ok()) << "bit " << bit;
  }
}

TEST(Handshake, NoiseNeverPasses) {
  std::mt19937 random(4);
  for (int round = 0; round < 5000; ++round) {
    Handshake server = Handshake::server(serves(secret_of(1)));
    ByteList hello(Handshake::kHelloSize);
    for (std::byte& b : hello) b = static_cast<std::byte>(random());
    if (round % 2 == 0) {  // half of it right
      Handshake client = Handshake::client(Role::kJoin, kId, secret_of(1));
      ByteList good;
      ASSERT_TRUE(client.start(&good).ok());
      hello = good;
    }
    ByteList out;
    if (!server.consume(hello, &out).ok()) continue;
    ByteList proof(Handshake::kProofSize);
    for (std::byte& b : proof) b = static_cast<std::byte>(random());
    EXPECT_FALSE(server.consume(proof, &out).ok());
    EXPECT_FALSE(server.done());
  }
}

TEST(Handshake, MessagesOfTheWrongSizeAreRefused) {
  for (const std::size_t size : {0, 1, 63, 65, 4096}) {
    Handshake server = Handshake::server(serves(secret_of(1)));
    ByteList out;
    EXPECT_FALSE(server.consume(ByteList(size), &out).ok());
  }
}

}  // namespace
}  // namespace tutti

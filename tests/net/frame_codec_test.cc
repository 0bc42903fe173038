// Covers net/frame_codec.cc.
#include "net/frame_codec.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tutti {
namespace {

constexpr std::size_t kFrameLimit = 1000;
constexpr MessageType kFrameType{0x0102};

using FrameBytes = std::vector<std::byte>;

Key frame_key(int seed) {
  Key key{};
  key[0] = static_cast<std::byte>(seed);
  return key;
}

FrameBytes payload_of(std::size_t size) {
  FrameBytes payload(size);
  for (std::size_t i = 0; i < size; ++i) payload[i] = static_cast<std::byte>(i * 7 + 1);
  return payload;
}

/// Both ends of one direction.
struct FrameWay {
  FrameCodec sender{frame_key(1)};
  FrameCodec receiver{frame_key(1)};

  FrameBytes send(const FrameBytes& payload) {
    FrameBytes frame;
    EXPECT_TRUE(sender.encode(kFrameType, payload, &frame).ok());
    sender.count_sent();
    return frame;
  }
  bool takes(const FrameBytes& input) {
    Frame frame;
    return receiver.decode(input, kFrameLimit, &frame).ok() && frame.size == input.size();
  }
  bool refuses(const FrameBytes& input) {
    Frame frame;
    const Status status = receiver.decode(input, kFrameLimit, &frame);
    return status.code() == Code::kRemoteError && frame.size == 0;
  }
};

TEST(FrameCodec, WhatIsSentArrives) {
  FrameWay way;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{15}, kFrameLimit}) {
    const FrameBytes payload = payload_of(size);
    const FrameBytes sent = way.send(payload);
    EXPECT_EQ(sent.size(), FrameCodec::kHeaderSize + size + FrameCodec::kMacSize);
    Frame frame;
    ASSERT_TRUE(way.receiver.decode(sent, kFrameLimit, &frame).ok()) << size;
    EXPECT_EQ(frame.size, sent.size());
    EXPECT_EQ(frame.type, kFrameType);
    EXPECT_TRUE(std::equal(frame.payload.begin(), frame.payload.end(), payload.begin(), payload.end()));
  }
}

TEST(FrameCodec, TheHeaderIsAsDocumented) {
  FrameWay way;
  const FrameBytes sent = way.send(payload_of(0x0203));
  const FrameBytes header{std::byte{3}, std::byte{2}, std::byte{0}, std::byte{0},
                          std::byte{2}, std::byte{1}, std::byte{0}, std::byte{0}};
  EXPECT_TRUE(std::equal(header.begin(), header.end(), sent.begin()));
}

TEST(FrameCodec, FramesAreReadOneByOneFromWhatHasCome) {
  FrameWay way;
  const FrameBytes first = way.send(payload_of(20));
  const FrameBytes second = way.send(payload_of(30));
  FrameBytes both = first;
  both.insert(both.end(), second.begin(), second.end());
  Frame frame;
  ASSERT_TRUE(way.receiver.decode(both, kFrameLimit, &frame).ok());
  EXPECT_EQ(frame.size, first.size());
  ASSERT_TRUE(way.receiver.decode(ByteView(both).subspan(frame.size), kFrameLimit, &frame).ok());
  EXPECT_EQ(frame.size, second.size());
}

TEST(FrameCodec, ABeginningIsNoFrameYet) {
  FrameWay way;
  const FrameBytes sent = way.send(payload_of(20));
  for (std::size_t size = 0; size < sent.size(); ++size) {
    Frame frame;
    EXPECT_TRUE(way.receiver.decode(ByteView(sent).first(size), kFrameLimit, &frame).ok()) << size;
    EXPECT_EQ(frame.size, 0u);
  }
  EXPECT_TRUE(way.takes(sent));
}

/// Other bytes follow, because a frame whose size was changed is awaited first.
TEST(FrameCodec, EveryChangedBitIsNoticed) {
  FrameWay way;
  const FrameBytes sent = way.send(payload_of(5));
  for (std::size_t bit = 0; bit < sent.size() * 8; ++bit) {
    FrameBytes changed = sent;
    changed[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    changed.resize(changed.size() + 2 * kFrameLimit);
    EXPECT_TRUE(way.refuses(changed)) << "bit " << bit;
  }
  EXPECT_TRUE(way.takes(sent));
}

TEST(FrameCodec, ATruncatedFrameThatAnotherOneFollowsIsRefused) {
  FrameWay way;
  FrameBytes cut = way.send(payload_of(20));
  cut.erase(cut.end() - 1);
  const FrameBytes next = way.send(payload_of(20));
  cut.insert(cut.end(), next.begin(), next.end());
  EXPECT_TRUE(way.refuses(cut));
}

TEST(FrameCodec, ARepeatedFrameIsRefused) {
  FrameWay way;
  const FrameBytes sent = way.send(payload_of(20));
  EXPECT_TRUE(way.takes(sent));
  EXPECT_TRUE(way.refuses(sent));
}

TEST(FrameCodec, FramesInAnotherOrderAreRefused) {
  FrameWay way;
  const FrameBytes first = way.send(payload_of(20));
  const FrameBytes second = way.send(payload_of(20));
  EXPECT_TRUE(way.refuses(second));
  EXPECT_TRUE(way.takes(first));
  EXPECT_TRUE(way.takes(second));
}

TEST(FrameCodec, ATooLongFrameIsRefusedByItsHeaderAlone) {
  FrameWay way;
  FrameBytes sent = way.send(payload_of(kFrameLimit + 1));
  sent.resize(FrameCodec::kHeaderSize);
  EXPECT_TRUE(way.refuses(sent));
}

TEST(FrameCodec, AFrameUnderAnotherKeyIsRefused) {
  FrameWay way;
  way.sender = FrameCodec(frame_key(2));
  EXPECT_TRUE(way.refuses(way.send(payload_of(20))));
}

TEST(FrameCodec, AFrameThatWasNotSentDoesNotCount) {
  FrameWay way;
  FrameBytes dropped;
  ASSERT_TRUE(way.sender.encode(kFrameType, payload_of(9), &dropped).ok());
  EXPECT_TRUE(way.takes(way.send(payload_of(20))));
}

}  // namespace
}  // namespace tutti

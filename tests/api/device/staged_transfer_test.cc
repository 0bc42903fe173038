// Sends and receives of device memory: all bytes of every size, to several peers, to oneself, of messages that come
// before their receives, and without one peer holding up another.
// Covers executor/device/transfer_segments.cc, executor/device/send_staging.cc, executor/device/receive_staging.cc,
// executor/point_to_point.cc.
#include <gtest/gtest.h>
#include <tutti/tutti.h>

#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/types.h"
#include "support/device/octets.h"
#include "support/device/staged_fixture.h"
#include "support/sanitized.h"

namespace tutti::test {
namespace {

tuttiResult_t send_octets(Octets& data, int peer, tuttiComm_t comm, int tag = 0) {
  return tuttiSendTag(data.data(), data.size(), tuttiUint8, peer, tag, comm, nullptr);
}
tuttiResult_t receive_octets(Octets& data, int peer, tuttiComm_t comm, int tag = 0, int* source = nullptr) {
  return tuttiRecvTag(data.data(), data.size(), tuttiUint8, peer, tag, source, comm, nullptr);
}

class StagedTransfers : public StagedStreams {
 protected:
  /// Calls `body`, after which the communicator ends well.
  static void run(int ranks, const RankBody& body) {
    run_threads(ranks, [&](tuttiComm_t comm, int rank) {
      StandInDriver::use(rank);
      body(comm, rank);
      EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
    });
  }
};

/// The links, and how many bytes they carry at once in shared memory.
struct Links {
  const char* transport;
  const char* slot_bytes;
};
class StagedTransferSizes : public StagedTransfers, public ::testing::WithParamInterface<Links> {};

// Around the sizes of what an envelope carries, of a kernel's copies, of links' pieces, of chunks and of all the
// memory.
TEST_P(StagedTransferSizes, AreExactInBothDirectionsAtOnce) {
  const ScopedSetting links("TUTTI_TRANSPORT", GetParam().transport);
  const ScopedSetting slots("TUTTI_SHM_SLOT_BYTES", GetParam().slot_bytes);
  std::vector<std::size_t> sizes = {1, 24, 25};
  for (const std::size_t border : {32 * kKibi, 256 * kKibi, kMebi, 4 * kMebi})
    for (const std::size_t size : {border - 1, border, border + 1}) sizes.push_back(size);
  if (!kSanitized) sizes.push_back(16 * kMebi + 12'345);
  run(2, [&](tuttiComm_t comm, int rank) {
    for (const std::size_t size : sizes) {
      const std::size_t misaligned = size % 3;
      Octets out(size, true, rank, misaligned), in(size, true, rank, 2 * misaligned);
      out.fill(static_cast<std::size_t>(rank) + size);
      ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
      EXPECT_EQ(send_octets(out, 1 - rank, comm), tuttiSuccess);
      EXPECT_EQ(receive_octets(in, 1 - rank, comm), tuttiSuccess);
      ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError(comm);
      EXPECT_TRUE(in.is(static_cast<std::size_t>(1 - rank) + size)) << size;
      ASSERT_EQ(rank == 0 ? send_octets(out, 1, comm) : receive_octets(in, 0, comm), tuttiSuccess)
          << tuttiGetLastError(comm);
      EXPECT_TRUE(rank == 0 || in.is(size)) << size;
    }
  });
}
INSTANTIATE_TEST_SUITE_P(Pieces, StagedTransferSizes,
                         ::testing::Values(Links{"auto", "262144"}, Links{"auto", "8200"}, Links{"auto", "1048576"},
                                           Links{"auto", "8388608"}, Links{"tcp", "262144"}),
                         [](const auto& info) {
                           return std::string(info.param.transport) + "_" + info.param.slot_bytes;
                         });

TEST_F(StagedTransfers, CarryEveryType) {
  run(2, [](tuttiComm_t comm, int rank) {
    for (int type = 0; type < kDataTypes; ++type) {
      Octets data(300'000 * 8, true, rank);
      if (rank == 0) data.fill(1);
      const auto datatype = static_cast<tuttiDataType_t>(type);
      ASSERT_EQ(rank == 0 ? tuttiSend(data.data(), 300'000, datatype, 1, comm, nullptr)
                          : tuttiRecv(data.data(), 300'000, datatype, 0, comm, nullptr),
                tuttiSuccess)
          << tuttiGetLastError(comm);
      EXPECT_TRUE(data.is(1, 300'000 * size_of(static_cast<DataType>(type)).value)) << type;
    }
  });
}

// All ranks send to all, themselves included, two messages of different sizes; one has its data in host memory.
TEST_F(StagedTransfers, OfAGroupWithAllPeers) {
  constexpr int kRanks = 5;
  const auto size_of = [](int from, int to, int tag) -> std::size_t {
    return from == 2 && to == 3 ? 0 : static_cast<std::size_t>(from * 200'001 + to * 30'007 + tag * 77);
  };
  const auto number = [](int from, int to, int tag) { return static_cast<std::size_t>(100 * from + 10 * to + tag); };
  run(kRanks, [&](tuttiComm_t comm, int rank) {
    std::vector<std::unique_ptr<Octets>> out, in;
    ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
    for (int peer = 0; peer < kRanks; ++peer)
      for (int tag = 0; tag < 2; ++tag) {
        out.push_back(std::make_unique<Octets>(size_of(rank, peer, tag), rank != 1, rank));
        in.push_back(std::make_unique<Octets>(size_of(peer, rank, tag), rank != 1 || peer == 1, rank));
        out.back()->fill(number(rank, peer, tag));
        EXPECT_EQ(send_octets(*out.back(), peer, comm, tag), tuttiSuccess);
        EXPECT_EQ(receive_octets(*in.back(), peer, comm, tag), tuttiSuccess);
      }
    ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError(nullptr);
    for (int peer = 0; peer < kRanks; ++peer)
      for (int tag = 0; tag < 2; ++tag)
        EXPECT_TRUE(in[static_cast<std::size_t>(2 * peer + tag)]->is(number(peer, rank, tag))) << peer << " " << tag;
  });
}

TEST_F(StagedTransfers, ManySmallOnesOfAGroupComeInOrder) {
  run(2, [](tuttiComm_t comm, int rank) {
    std::vector<std::unique_ptr<Octets>> data;
    ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
    for (std::size_t i = 0; i < 200; ++i) {
      data.push_back(std::make_unique<Octets>(i * i % 5000, true, rank, i % 4));
      if (rank == 0) data.back()->fill(i);
      EXPECT_EQ(rank == 0 ? send_octets(*data.back(), 1, comm) : receive_octets(*data.back(), 0, comm), tuttiSuccess);
    }
    ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError(comm);
    for (std::size_t i = 0; i < data.size(); ++i) EXPECT_TRUE(data[i]->is(i)) << i;
  });
}

/// Whether the sender's and the receiver's memory are the device's.
class StagedTransfersToOneself : public StagedTransfers,
                                 public ::testing::WithParamInterface<std::tuple<bool, bool>> {};

TEST_P(StagedTransfersToOneself, ArriveInTheSameCallAndLater) {
  const auto [from_device, to_device] = GetParam();
  run(2, [from_device = from_device, to_device = to_device](tuttiComm_t comm, int rank) {
    for (const std::size_t size : {std::size_t{10}, 40 * kKibi, 2 * kMebi + 3}) {
      Octets out(size, from_device, rank), other(size / 2, from_device, rank);
      Octets in(size, to_device, rank), second(size / 2, to_device, rank);
      out.fill(1);
      other.fill(2);
      EXPECT_EQ(send_octets(out, rank, comm, 5), tuttiSuccess) << tuttiGetLastError(comm);
      EXPECT_EQ(send_octets(other, rank, comm, 6), tuttiSuccess);
      out.fill(9);  // what was sent stays as it was
      int source = -5;
      EXPECT_EQ(receive_octets(second, TUTTI_ANY_SOURCE, comm, 6, &source), tuttiSuccess) << tuttiGetLastError(comm);
      EXPECT_EQ(receive_octets(in, rank, comm, 5), tuttiSuccess) << tuttiGetLastError(comm);
      EXPECT_TRUE(in.is(1) && second.is(2)) << size;
      EXPECT_EQ(source, rank);
      other.fill(3);
      ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
      EXPECT_EQ(receive_octets(second, rank, comm, 7), tuttiSuccess);
      EXPECT_EQ(receive_octets(in, rank, comm), tuttiSuccess);
      EXPECT_EQ(send_octets(out, rank, comm), tuttiSuccess);
      EXPECT_EQ(send_octets(other, rank, comm, 7), tuttiSuccess);
      ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError(comm);
      EXPECT_TRUE(in.is(9) && second.is(3)) << size;
    }
  });
}
INSTANTIATE_TEST_SUITE_P(Memory, StagedTransfersToOneself, ::testing::Combine(::testing::Bool(), ::testing::Bool()));

// A message that comes before its receive is kept in host memory, and brought to the device from there.
TEST_F(StagedTransfers, ThatComeBeforeTheirReceives) {
  run(3, [](tuttiComm_t comm, int rank) {
    Octets early(3 * kMebi + 1, true, rank), small(20, true, rank), late(100, true, rank);
    if (rank != 0) {
      early.fill(static_cast<std::size_t>(rank));
      small.fill(static_cast<std::size_t>(rank) + 10);
      late.fill(static_cast<std::size_t>(rank) + 20);
      EXPECT_EQ(send_octets(early, 0, comm, 1), tuttiSuccess) << tuttiGetLastError(comm);
      EXPECT_EQ(send_octets(small, 0, comm, 2), tuttiSuccess);
      EXPECT_EQ(send_octets(late, 0, comm, 3), tuttiSuccess);
      return;
    }
    for (const int peer : {2, 1}) {
      EXPECT_EQ(receive_octets(late, peer, comm, 3), tuttiSuccess) << tuttiGetLastError(comm);
      EXPECT_TRUE(late.is(static_cast<std::size_t>(peer) + 20));
      EXPECT_EQ(receive_octets(small, peer, comm, 2), tuttiSuccess);
      EXPECT_TRUE(small.is(static_cast<std::size_t>(peer) + 10));
    }
    Octets other(3 * kMebi + 1, true, rank);
    int first = 0, second = 0;
    ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
    EXPECT_EQ(receive_octets(early, TUTTI_ANY_SOURCE, comm, 1, &first), tuttiSuccess);
    EXPECT_EQ(receive_octets(other, TUTTI_ANY_SOURCE, comm, 1, &second), tuttiSuccess);
    ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError(comm);
    EXPECT_EQ(first + second, 3);
    EXPECT_TRUE(early.is(static_cast<std::size_t>(first)));
    EXPECT_TRUE(other.is(static_cast<std::size_t>(second)));
  });
}

/// Rank 0 sends to all in one group. Each other rank takes its message only when the next one has its own, so the last
/// comes first.
void pass_down(tuttiComm_t comm, int rank, int ranks, std::size_t size) {
  Octets token(100, true, rank);
  if (rank != 0) {
    Octets in(size, true, rank);
    if (rank + 1 < ranks) {
      EXPECT_EQ(receive_octets(token, rank + 1, comm), tuttiSuccess) << tuttiGetLastError(comm);
    }
    EXPECT_EQ(receive_octets(in, 0, comm), tuttiSuccess) << tuttiGetLastError(comm);
    EXPECT_TRUE(in.is(static_cast<std::size_t>(rank)));
    if (rank > 1) {
      EXPECT_EQ(send_octets(token, rank - 1, comm), tuttiSuccess) << tuttiGetLastError(comm);
    }
    return;
  }
  std::vector<std::unique_ptr<Octets>> out;
  ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
  for (int peer = 1; peer < ranks; ++peer) {
    out.push_back(std::make_unique<Octets>(size, true, rank));
    out.back()->fill(static_cast<std::size_t>(peer));
    EXPECT_EQ(send_octets(*out.back(), peer, comm), tuttiSuccess);
  }
  EXPECT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError(comm);
}

TEST_F(StagedTransfers, ToOnePeerDoNotHoldUpTheOthers) {
  for (const char* const transport : {"auto", "tcp"}) {
    const ScopedSetting links("TUTTI_TRANSPORT", transport);
    run(3, [](tuttiComm_t comm, int rank) { pass_down(comm, rank, 3, 8 * kMebi + 5); });
  }
}

// With pieces of this size the staging memory has room for four, and there are seven peers.
TEST_F(StagedTransfers, ToMorePeersThanTheMemoryHasRoomFor) {
  const ScopedSetting bytes("TUTTI_SHM_SLOT_BYTES", "1048576"), slots("TUTTI_SHM_SLOTS", "2");
  run(8, [](tuttiComm_t comm, int rank) {
    pass_down(comm, rank, 8, 3 * kMebi + 5);
    std::vector<std::unique_ptr<Octets>> out, in;
    ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
    for (int peer = 0; peer < 8; ++peer) {
      out.push_back(std::make_unique<Octets>(kMebi + 17, true, rank));
      in.push_back(std::make_unique<Octets>(kMebi + 17, true, rank));
      out.back()->fill(static_cast<std::size_t>(8 * rank + peer));
      EXPECT_EQ(send_octets(*out.back(), peer, comm), tuttiSuccess);
      EXPECT_EQ(receive_octets(*in.back(), peer, comm), tuttiSuccess);
    }
    ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError(comm);
    for (int peer = 0; peer < 8; ++peer)
      EXPECT_TRUE(in[static_cast<std::size_t>(peer)]->is(static_cast<std::size_t>(8 * peer + rank))) << peer;
  });
}

// Each rank's buffers are other devices' memory than that of the stream on which its copies are.
TEST_F(StagedTransfers, OfBuffersOnSeveralDevices) {
  run(2, [](tuttiComm_t comm, int rank) {
    Octets own(10, true, rank);
    EXPECT_EQ(rank == 0 ? send_octets(own, 1, comm) : receive_octets(own, 0, comm), tuttiSuccess);
    for (const std::size_t size : {std::size_t{100}, 2 * kMebi}) {
      Octets out(size, true, rank + 2), in(size, true, rank + 4), mine(size, true, rank + 6);
      out.fill(static_cast<std::size_t>(rank));
      ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
      EXPECT_EQ(send_octets(out, 1 - rank, comm), tuttiSuccess);
      EXPECT_EQ(receive_octets(in, 1 - rank, comm), tuttiSuccess);
      EXPECT_EQ(send_octets(out, rank, comm), tuttiSuccess);
      EXPECT_EQ(receive_octets(mine, rank, comm), tuttiSuccess);
      ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError(comm);
      EXPECT_TRUE(in.is(static_cast<std::size_t>(1 - rank)));
      EXPECT_TRUE(mine.is(static_cast<std::size_t>(rank)));
    }
  });
}

/// Ranks of one device, whose collectives are kernels: the copies of messages stand on the same stream as these.
class TransfersBesideKernels : public ::testing::Test {
 protected:
  const ScopedSetting quiet_{"TUTTI_LOG", "error"};
};

TEST_F(TransfersBesideKernels, StandInTheOrderOfTheCalls) {
  constexpr std::size_t kCount = 300'000;
  const std::size_t launches = stand_in().launches();
  const int devices[] = {0, 0};
  tuttiComm_t comms[2];
  ASSERT_EQ(tuttiCommInitAll(comms, 2, devices), tuttiSuccess) << tuttiGetLastError(nullptr);
  const auto run_rank = [&](tuttiComm_t comm, int rank) {
    StandInDriver::use(0);
    {
      Values mine(std::vector<float>(kCount, 1.0f), true), theirs(kCount, true);
      const CallerStream own(0);
      const auto sum = [&](Values& from, tuttiStream_t stream) {
        EXPECT_EQ(tuttiAllReduce(from.data(), mine.data(), kCount, tuttiFloat32, tuttiSum, comm, stream), tuttiSuccess)
            << tuttiGetLastError(comm);
      };
      for (const tuttiStream_t stream : {tuttiStream_t{}, own.get()}) {
        for (int i = 0; i < 3; ++i) {
          sum(mine, stream);
          ASSERT_EQ(tuttiGroupStart(), tuttiSuccess);
          EXPECT_EQ(tuttiSend(mine.data(), kCount, tuttiFloat32, 1 - rank, comm, stream), tuttiSuccess);
          EXPECT_EQ(tuttiRecv(theirs.data(), kCount, tuttiFloat32, 1 - rank, comm, stream), tuttiSuccess);
          ASSERT_EQ(tuttiGroupEnd(), tuttiSuccess) << tuttiGetLastError(comm);
          sum(theirs, stream);
        }
        EXPECT_EQ(tuttiStreamSynchronize(own.get()), tuttiSuccess) << tuttiGetLastError(comm);
      }
      own.drain();
      EXPECT_TRUE(mine.get() == std::vector<float>(kCount, 4096.0f)) << mine.get()[0];
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess) << tuttiGetLastError(nullptr);
  };
  std::thread other([&] { run_rank(comms[1], 1); });
  run_rank(comms[0], 0);
  other.join();
  EXPECT_GE(stand_in().launches(), launches + 24) << "collectives are no kernels";
}

}  // namespace
}  // namespace tutti::test

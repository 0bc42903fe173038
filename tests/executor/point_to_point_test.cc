// Covers executor/point_to_point.cc.
// Where the data of a receive arrives over a connection.
#include "executor/point_to_point.h"

#include <gtest/gtest.h>

#include "transport/tcp_fabric.h"

namespace tutti::testing_traffic {
namespace {

constexpr WorldSize kSize{2, 1, Bytes{512 * 1024}};
constexpr Bytes kData{1'000'003};  // no multiple of a piece

Transfer transfer(Transfer::Kind kind, Rank peer, std::vector<std::byte>* data) {
  Transfer made;
  made.kind = kind;
  made.peer = peer;
  made.data = data->data();
  made.count = Elems{data->size()};
  return made;
}

/// Rank 0 sends to rank 1, which checks the data. Returns how much memory rank 1's links have taken for that.
std::size_t receive_over_tcp(const std::function<void(TcpEndpoint& receiver)>& before_receive) {
  std::size_t taken = 0;
  TcpFabric fabric(2);
  run_bodies(fabric, kSize, [&](TcpEndpoint& endpoint) {
    PointToPoint<TcpEndpoint> transfers(endpoint, PointToPointPolicy{Lane{0}});
    const bool sends = endpoint.rank() == Rank{0};
    std::vector<std::byte> data(kData.value);
    if (sends) fill(data.data(), kData, 7);
    Transfer whole = transfer(sends ? Transfer::Kind::kSend : Transfer::Kind::kReceive, Rank{sends ? 1 : 0}, &data);
    if (!sends) before_receive(endpoint);
    const std::size_t before = endpoint.memory_bytes();
    transfers.start(std::span(&whole, 1));
    poll_until("the transfer", [&] {
      const Progress progress = transfers.advance();
      require(progress != Progress::kFailed, transfers.fault());
      return progress == Progress::kDone;
    });
    if (sends) return;
    verify(data.data(), kData, 7);
    taken = endpoint.memory_bytes() - before;
  });
  return taken;
}

TEST(PointToPoint, DataOfAReceiveArrivesWhereItBelongs) {
  EXPECT_LT(receive_over_tcp([](TcpEndpoint&) {}), TcpEndpoint::kLargestPiece.value) << "it went through a slot";
}

TEST(PointToPoint, DataThatComesBeforeItsReceiveIsRight) {
  receive_over_tcp([](TcpEndpoint& receiver) {
    poll_until("pieces in two slots", [&] {
      receiver.can_send(unicast(Rank{0}));  // the link's first use
      receiver.make_progress();
      return receiver.memory_bytes() >= 2 * kSize.max_message.value;
    });
  });
}

}  // namespace
}  // namespace tutti::testing_traffic

// Covers transport/tcp/tcp.cc, transport/tcp/tcp_link.cc, transport/tcp/tcp_frame.cc, transport/tcp/tcp_inbox.cc,
// transport/tcp/tcp_outbox.cc.
// The conformance suite on tcp, and what only connections have: they are lost, and what they carry is damaged.
#include "transport/conformance.h"
#include "transport/conformance_sleep.h"
#include "transport/tcp_fabric.h"

namespace tutti::testing_traffic {

struct TcpWorld {
  using End = TcpEndpoint;
  static constexpr std::uint64_t kSmallMessages = 200'000;
  static constexpr bool kLazyReleases = true;
  static void run(WorldSize size, const std::function<void(End&)>& body) {
    TcpFabric fabric(size.ranks);
    run_bodies(fabric, size, body);
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(Tcp, Conformance, TcpWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(Tcp, SleepConformance, TcpWorld);

struct CheckedTcpWorld {
  using End = TcpEndpoint;
  static constexpr std::uint64_t kSmallMessages = 50'000;
  static constexpr bool kLazyReleases = true;
  static void run(WorldSize size, const std::function<void(End&)>& body) {
    TcpFabric fabric(size.ranks);
    run_bodies(fabric, size, body, true);
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(CheckedTcp, Conformance, CheckedTcpWorld);

struct EncryptedTcpWorld {
  using End = TcpEndpoint;
  static constexpr std::uint64_t kSmallMessages = kSanitized ? 50'000 : 5'000;
  static constexpr bool kLazyReleases = true;
  static void run(WorldSize size, const std::function<void(End&)>& body) {
    TcpFabric fabric(size.ranks, tcp_pair, true);
    run_bodies(fabric, size, body);
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(EncryptedTcp, Conformance, EncryptedTcpWorld);
INSTANTIATE_TYPED_TEST_SUITE_P(EncryptedTcp, SleepConformance, EncryptedTcpWorld);

/// Everything is sent in pieces, and what TLS holds is handed over later.
struct NarrowTcpWorld {
  using End = TcpEndpoint;
  static constexpr std::uint64_t kSmallMessages = kSanitized ? 50'000 : 5'000;
  static constexpr bool kLazyReleases = true;
  static void run(WorldSize size, const std::function<void(End&)>& body) {
    TcpFabric fabric(size.ranks, narrow_tcp_pair, true);
    run_bodies(fabric, size, body);
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(NarrowEncryptedTcp, Conformance, NarrowTcpWorld);

}  // namespace tutti::testing_traffic
